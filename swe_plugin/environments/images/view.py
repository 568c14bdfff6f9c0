"""Layers as one tree, without mounting them: what overlayfs would show."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from swe_plugin.environments.images.overlay import is_opaque, is_whiteout

__all__ = ["MergedView"]

_MAX_LINKS = 40


class MergedView:
    """A read-only view of layers.

    Paths are given and returned as they are inside (absolute, ``/`` is the root). Links are followed inside only:
    ``..`` of the root is the root.

    Args:
        layers: directories, topmost first.
    """

    def __init__(self, layers: Sequence[Path]) -> None:
        self.layers = tuple(layer.resolve() for layer in layers)
        self._tops = [str(layer).rstrip("/") for layer in self.layers]

    def lookup(self, path: str | PurePosixPath) -> Path | None:
        """Where the entry is on this machine, its last component not followed; None if there is none.

        No component but the last may be a link: see `resolve`.
        """
        found = self._candidates(PurePosixPath(path).parts[1:])
        return Path(found[0]) if found else None

    def resolve(self, path: str | PurePosixPath, *, follow_last: bool = True) -> PurePosixPath:
        """The path with its links followed, components that do not exist kept.

        Raises:
            OSError: a link loop.
        """
        todo, n_links = list(reversed(PurePosixPath(path).parts[1:])), 0
        trail = [("/", self._roots())]
        while todo:
            name = todo.pop()
            if name == "..":
                trail = trail[:-1] if len(trail) > 1 else trail
                continue
            reals = _below(trail[-1][1], name)
            if not (todo or follow_last) or not reals or not os.path.islink(reals[0]):
                trail.append((name, reals))
                continue
            n_links += 1
            if n_links > _MAX_LINKS:
                raise OSError(errno.ELOOP, "too many links", str(path))
            target = PurePosixPath(os.readlink(reals[0]))
            trail = trail[:1] if target.is_absolute() else trail
            todo += reversed(target.parts[1:] if target.is_absolute() else target.parts)
        return PurePosixPath(*(name for name, _ in trail))

    def find(self, path: str | PurePosixPath) -> Path | None:
        """Where the file or directory that `path` leads to is on this machine; None if there is none."""
        return self.lookup(self.resolve(path))

    def names(self, directory: str | PurePosixPath) -> list[str]:
        """Sorted names in a directory; empty if it is none. Links in `directory` are not followed."""
        return sorted(_children(self._candidates(PurePosixPath(directory).parts[1:])))

    def walk(self, top: str | PurePosixPath) -> Iterator[tuple[PurePosixPath, Path]]:
        """Every entry below `top`, parents first, as (path inside, path on this machine); `top` is not included."""
        inside = PurePosixPath(top)
        pending = [(inside, self._candidates(inside.parts[1:]))]
        while pending:
            directory, reals = pending.pop()
            for name, below in sorted(_children(reals).items()):
                yield directory / name, Path(below[0])
                pending.append((directory / name, below))

    def _candidates(self, parts: Sequence[str]) -> list[str]:
        """What the layers have at a path, topmost first, down to what hides the rest."""
        reals = self._roots()
        for part in parts:
            reals = _below(reals, part)
        return reals

    def _roots(self) -> list[str]:
        return [layer for layer in self._tops if os.path.isdir(layer or "/")]


def _below(reals: Sequence[str], name: str) -> list[str]:
    """What a merged directory has under one name, topmost first; nothing if it is no directory."""
    found: list[str] = []
    for real in reals:
        if not stat.S_ISDIR(os.lstat(real).st_mode) or _add(found, f"{real}/{name}"):
            break
    return found


def _children(reals: Sequence[str]) -> dict[str, list[str]]:
    """Name -> what a merged directory has under it, topmost first."""
    found: dict[str, list[str]] = {}
    closed: set[str] = set()
    for real in reals:
        if not stat.S_ISDIR(os.lstat(real).st_mode):
            break
        for name in os.listdir(real):
            if name not in closed and _add(found.setdefault(name, []), f"{real}/{name}"):
                closed.add(name)
    return {name: below for name, below in found.items() if below}


def _add(found: list[str], real: str) -> bool:
    """Add what one layer has to what those above have; True if layers below do not matter any more."""
    try:
        mode = os.lstat(real).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    if stat.S_ISDIR(mode):
        found.append(real)
        return is_opaque(real)
    if not found and not is_whiteout(real):
        found.append(real)
    return True
