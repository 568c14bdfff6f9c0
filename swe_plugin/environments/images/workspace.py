"""The layer on top of an image that brings its own repository: history cut at the base commit, owned by the agent."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path, PurePosixPath

from swe_plugin.environments.images.history import rebuild_git
from swe_plugin.environments.images.overlay import make_opaque
from swe_plugin.environments.images.repository import give
from swe_plugin.environments.images.view import MergedView
from swe_plugin.environments.images.worktree import make_parents, move_files
from swe_plugin.errors import EnvironmentStartError

__all__ = ["build_workspace", "needs_workspace"]


def needs_workspace(view: MergedView, workdir: PurePosixPath, owner: tuple[int, int]) -> bool:
    """Whether an image's work directory (links followed) cannot be given to an agent as it is."""
    top = view.lookup(workdir)
    foreign = os.geteuid() == 0 and top is not None and top.lstat().st_uid != owner[0]
    return foreign or view.lookup(workdir / ".git") is not None


def build_workspace(
    root: Path, view: MergedView, workdir: PurePosixPath, commit: str, owner: tuple[int, int], packs: Path | None = None
) -> None:
    """Fill the empty directory `root`, an overlay layer.

    Args:
        root: the layer.
        view: the image.
        workdir: absolute, links followed; exists.
        commit: base commit of its repository, see `rebuild_git`.
        owner: user and group id, on this machine, of everything in the work directory.
        packs: see `packs.pack_history`.

    Raises:
        EnvironmentStartError: the repository cannot be cut at that commit.
    """
    top = make_parents(root, view, workdir)
    copied = os.geteuid() == 0 and any(real.lstat().st_uid != owner[0] for _, real in view.walk(workdir))
    if copied:
        _copy(view, workdir, top)
        make_opaque(top)
    git = view.lookup(workdir / ".git")
    if git is None:
        pass
    elif stat.S_ISDIR(git.lstat().st_mode):
        move = rebuild_git(view, workdir, commit, top, packs)
        make_opaque(top / ".git")
        move_files(root, view, workdir, move, copied=copied)
    else:
        raise EnvironmentStartError(f"{workdir}/.git is no directory: a linked worktree or submodule; use a full clone")
    give(top, owner)


def _copy(view: MergedView, workdir: PurePosixPath, top: Path) -> None:
    for path, real in view.walk(workdir):
        if path.relative_to(workdir).parts[0] == ".git":
            continue
        target, info = top / path.relative_to(workdir), real.lstat()
        if stat.S_ISDIR(info.st_mode):
            target.mkdir()
        elif stat.S_ISLNK(info.st_mode):
            target.symlink_to(real.readlink())
        elif stat.S_ISREG(info.st_mode):
            shutil.copyfile(real, target)
        else:
            continue
        if not stat.S_ISLNK(info.st_mode):
            target.chmod(stat.S_IMODE(info.st_mode))
        os.utime(target, ns=(info.st_mtime_ns, info.st_mtime_ns), follow_symlinks=False)
