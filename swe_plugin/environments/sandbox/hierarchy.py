"""Which cgroup controllers this process can use, and where."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["CONTROLLERS", "Hierarchy", "detect_hierarchy"]

CONTROLLERS = ("memory", "pids", "cpu")


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Usable controllers.

    Attributes:
        version: of the cgroup interface, 1 or 2.
        parents: controller -> directory in which groups can be made.
        reasons: controller -> why it cannot be used.
    """

    version: int = 1
    parents: dict[str, Path] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)


def detect_hierarchy(mountinfo: str | None = None, own: str | None = None) -> Hierarchy:
    """Look for version 2 first, then for version 1 controllers; each is tried by making a group.

    Args:
        mountinfo: content of ``/proc/self/mountinfo``; read if not given (tests give it).
        own: content of ``/proc/self/cgroup``.
    """
    mountinfo = Path("/proc/self/mountinfo").read_text() if mountinfo is None else mountinfo
    own = Path("/proc/self/cgroup").read_text() if own is None else own
    unified, legacy = _mounts(mountinfo)
    paths = {
        name: path for line in own.splitlines() for _, names, path in [line.split(":", 2)] for name in names.split(",")
    }
    if unified is not None and set(CONTROLLERS) <= set(_words(unified / "cgroup.controllers")):
        return _version_2(unified, paths.get("", "/"))
    return _version_1(legacy, paths)


def _version_1(mounts: dict[str, Path], paths: dict[str, str]) -> Hierarchy:
    found = Hierarchy(1)
    for name in CONTROLLERS:
        if name not in mounts:
            found.reasons[name] = "the controller is not mounted"
            continue
        nested = mounts[name] / paths.get(name, "/").lstrip("/")
        problem = "no directory"
        for parent in (nested, mounts[name]):
            if not (problem := _try_group(parent)):
                found.parents[name] = parent
                break
        else:
            found.reasons[name] = problem
    return found


def _version_2(mount: Path, path: str) -> Hierarchy:
    found = Hierarchy(2)
    problem = ""
    for parent in (mount / path.lstrip("/"), mount):
        problem = _enable(parent) or _try_group(parent)
        if not problem:
            found.parents.update(dict.fromkeys(CONTROLLERS, parent))
            return found
    found.reasons.update(dict.fromkeys(CONTROLLERS, problem))
    return found


def _enable(parent: Path) -> str:
    """Hand the controllers down to children of `parent`; the reason if that is not possible."""
    missing = set(CONTROLLERS) - set(_words(parent / "cgroup.subtree_control"))
    try:
        if missing:
            (parent / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(missing)))
    except OSError as error:
        return f"cannot enable {', '.join(sorted(missing))} below {parent}: {error.strerror}"
    return ""


def _try_group(parent: Path) -> str:
    trial = parent / f"swe-probe-{os.getpid()}"
    try:
        trial.mkdir()
        trial.rmdir()
    except OSError as error:
        return f"cannot make a group in {parent}: {error.strerror}"
    return ""


def _mounts(mountinfo: str) -> tuple[Path | None, dict[str, Path]]:
    """Mount points: of version 2, and of each version 1 controller."""
    unified: Path | None = None
    legacy: dict[str, Path] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.partition(" ")
        point = Path(re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), before.split()[4]))
        if kind == "cgroup2":
            unified = point
        elif kind == "cgroup":
            for name in options.split()[-1].split(","):
                if name in CONTROLLERS:
                    legacy.setdefault(name, point)
    return unified, legacy


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
