"""Which cgroup controllers this process can use, and where."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["CONTROLLERS", "Candidates", "Hierarchy", "detect_hierarchy", "find_candidates"]

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


@dataclass(frozen=True, slots=True)
class Candidates:
    """Directories in which groups might be made, best first, before any is tried."""

    version: int
    parents: dict[str, tuple[Path, ...]]


def find_candidates(mountinfo: str | None = None, own: str | None = None) -> Candidates:
    """Below this process's own group, so that its limits go on counting; else at the top of the hierarchy.

    Version 2 if it has all controllers, else version 1.

    Args:
        mountinfo: content of ``/proc/self/mountinfo``; read if not given (tests give it).
        own: content of ``/proc/self/cgroup``.
    """
    mountinfo = Path("/proc/self/mountinfo").read_text() if mountinfo is None else mountinfo
    own = Path("/proc/self/cgroup").read_text() if own is None else own
    unified, legacy = _mounts(mountinfo)
    fields = [line.split(":", 2) for line in own.splitlines()]
    paths = {name: path.lstrip("/") for _, names, path in fields for name in names.split(",")}
    if unified is not None and set(CONTROLLERS) <= set(_words(unified / "cgroup.controllers")):
        return Candidates(2, dict.fromkeys(CONTROLLERS, (unified / paths.get("", ""), unified)))
    return Candidates(1, {name: (mount / paths.get(name, ""), mount) for name, mount in legacy.items()})


def detect_hierarchy(candidates: Candidates, name: str) -> Hierarchy:
    """Try each candidate by making, and removing, a group called `name`.

    Args:
        candidates: from `find_candidates`.
        name: of a lease that lists all candidates.
    """
    found = Hierarchy(candidates.version)
    for controller in CONTROLLERS:
        found.reasons[controller] = "the controller is not mounted"
        for parent in candidates.parents.get(controller, ()):
            problem = (_enable(parent) if candidates.version == 2 else "") or _try_group(parent / name)
            if not problem:
                found.parents[controller] = parent
                del found.reasons[controller]
                break
            found.reasons[controller] = problem
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


def _try_group(trial: Path) -> str:
    try:
        trial.mkdir()
        trial.rmdir()
    except OSError as error:
        return f"cannot make a group in {trial.parent}: {error.strerror}"
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
