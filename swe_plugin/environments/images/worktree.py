"""Files of a repository's work directory that have to change with its base commit."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from swe_plugin.environments.images.git import run_git
from swe_plugin.environments.images.overlay import make_whiteout
from swe_plugin.environments.images.view import MergedView
from swe_plugin.errors import EnvironmentStartError

__all__ = ["Move", "make_parents", "move_files"]


@dataclass(frozen=True, slots=True)
class Move:
    """From the commit that an image has checked out to the base commit; paths as git has them.

    Attributes:
        written: files that the base commit has, and has differently.
        removed: files that it does not have.
        modules: submodules of the base commit.
    """

    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


def move_files(root: Path, view: MergedView, workdir: PurePosixPath, move: Move, *, copied: bool) -> None:
    """Bring the files of a work directory to the base commit, and cut its submodules loose.

    A submodule's ``.git`` is a file that names a directory which is not there any more; without that file git takes
    the submodule for one that was not fetched, with it every command fails.

    Args:
        root: the layer; its repository has the base commit's index.
        view: what it goes on.
        workdir: absolute, links followed.
        move: what to do.
        copied: whether the layer has a copy of the whole work directory, which hides the one below.

    Raises:
        EnvironmentStartError: a path leads out of the work directory.
    """
    top = root.joinpath(*workdir.parts[1:])
    gone = [_checked(path) for path in move.removed]
    gone += [path / ".git" for path in map(_checked, move.modules) if _is_file(view.lookup(workdir / path / ".git"))]
    written = [_checked(path) for path in move.written]
    parents = {parent for path in written for parent in path.parents}
    for path in gone:
        if copied:
            here = MergedView([top]).lookup(PurePosixPath("/") / path)
            if here is not None and (here.is_symlink() or not here.is_dir()):
                here.unlink()
        elif path not in parents and view.lookup(workdir / path) is not None:
            make_whiteout(make_parents(root, view, (workdir / path).parent) / path.name)
    for parent in () if copied else sorted(parents):
        make_parents(root, view, workdir / parent)
    names = "".join(f"{path}\0" for path in move.written)
    run_git(top, "checkout-index", "-f", "-q", "-u", "-z", "--stdin", stdin=names)


def make_parents(root: Path, view: MergedView, directory: PurePosixPath) -> Path:
    """Make `directory` in the layer `root`; it and its parents are as in the image."""
    for inside in reversed((directory, *directory.parents)):
        real = root.joinpath(*inside.parts[1:])
        real.mkdir(exist_ok=True)
        below = view.lookup(inside)
        if below is not None and stat.S_ISDIR((info := below.lstat()).st_mode):
            if os.geteuid() == 0:
                os.chown(real, info.st_uid, info.st_gid)
            real.chmod(stat.S_IMODE(info.st_mode))
    return root.joinpath(*directory.parts[1:])


def _checked(path: str) -> PurePosixPath:
    found = PurePosixPath(path)
    if found.is_absolute() or not found.parts or ".." in found.parts or found.parts[0] == ".git":
        raise EnvironmentStartError(f"its repository is damaged: it has a file {path!r}")
    return found


def _is_file(path: Path | None) -> bool:
    return path is not None and stat.S_ISREG(path.lstat().st_mode)
