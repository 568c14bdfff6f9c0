"""History in packs that instances of one repository have in common: on the disk once, hard-linked into their layers."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from swe_plugin.environments.images.git import run_git

__all__ = ["forget_packs", "pack_history"]

_PACKS = Path(".git/objects/pack")
_SUFFIXES = (".pack", ".idx")


def pack_history(top: Path, base: str, others: Sequence[str], shared: Path | None, env: Mapping[str, str]) -> None:
    """Pack exactly the objects that some commits and tags reach.

    The commits from the first to `base`, first parents only, are cut into runs: the first one alone, then powers of
    sixteen, longest first. Each run, with what was merged into it, is a pack, and what is left is one: base commits of
    one branch begin with the same packs.

    Args:
        top: above a ``.git`` without objects.
        base: id of a commit.
        others: ids of tags, or what they point at, that `base` reaches.
        shared: directory of runs that repositories with the same objects have packed, made if need be; what is in it is
            trusted, and belongs to whom this repository will belong to. None: all in one pack.
        env: says where git finds the objects.
    """
    packed: list[str] = []
    if shared is not None:
        shared.mkdir(parents=True, exist_ok=True)
        for number, last in _runs(run_git(top, "rev-list", "--first-parent", "--reverse", base, env=env).split()):
            name = f"pack-{hashlib.sha256(f'{number} {last}'.encode()).hexdigest()[:40]}"
            if not _borrow(shared, name, top / _PACKS):
                _pack(top, name, [last, *packed], env)
                _lend(top / _PACKS, name, shared)
            packed = [f"^{last}"]
    _pack(top, "", [base, *others, *packed], env)


def forget_packs(shared: Path) -> None:
    """Remove what no layer has any more from all the directories in `shared`."""
    for path in shared.glob("*/*"):
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_nlink == 1:
                path.unlink()
    for directory in shared.glob("*"):
        with contextlib.suppress(OSError):  # not empty
            directory.rmdir()


def _runs(commits: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Length and last commit of each run."""
    end = 0
    for length in (1, 4096, 256, 16):
        while len(commits) - end >= length and (end == 0 or length > 1):
            end += length
            yield length, commits[end - 1]


def _pack(top: Path, name: str, revisions: Sequence[str], env: Mapping[str, str]) -> None:
    tips = "\n".join(revisions)
    words = ["pack-objects", "-q", "--revs", "--non-empty", str(_PACKS / "pack")]
    made = run_git(top, *words, stdin=tips, env=env).strip()
    if name and made:
        for suffix in _SUFFIXES:
            (top / _PACKS / f"pack-{made}{suffix}").rename(top / _PACKS / f"{name}{suffix}")
        (top / _PACKS / f"pack-{made}.rev").unlink(missing_ok=True)


def _borrow(shared: Path, name: str, packs: Path) -> bool:
    try:
        for suffix in _SUFFIXES:
            os.link(shared / f"{name}{suffix}", packs / f"{name}{suffix}")
    except FileNotFoundError:
        (packs / f"{name}.pack").unlink(missing_ok=True)
        return False
    return True


def _lend(packs: Path, name: str, shared: Path) -> None:
    for suffix in _SUFFIXES:
        with contextlib.suppress(FileExistsError, FileNotFoundError):  # another was faster; or forgot the directory
            os.link(packs / f"{name}{suffix}", shared / f"{name}{suffix}")
