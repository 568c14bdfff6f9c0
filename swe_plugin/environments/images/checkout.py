"""The checkout layer: a repository at a commit, with the history up to it and nothing after it."""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path, PurePosixPath

from swe_plugin.environments.images.git import run_git
from swe_plugin.environments.images.history import rebuild_git
from swe_plugin.environments.images.repository import give
from swe_plugin.environments.images.view import MergedView
from swe_plugin.environments.images.worktree import make_parents
from swe_plugin.errors import EnvironmentStartError

__all__ = ["build_checkout", "check_commit"]

_ID = re.compile(r"[0-9a-f]{40}")


def check_commit(repository: str, commit: str) -> None:
    """Refuse what does not name one commit for ever.

    Raises:
        EnvironmentStartError: says what to write.
    """
    if not _ID.fullmatch(commit):
        raise EnvironmentStartError(
            f"image.commit={commit!r}: must be a full commit id (40 hex digits) of {repository}: branches move"
        )


def build_checkout(
    root: Path,
    view: MergedView,
    mirror: Path,
    repository: str,
    commit: str,
    workdir: PurePosixPath,
    owner: tuple[int, int],
    packs: Path | None = None,
) -> None:
    """Fill the empty directory `root`, an overlay layer.

    Args:
        root: the layer.
        view: what it goes on; parents of `workdir` are as there.
        mirror: bare repository on this machine that collects what was fetched from `repository`, made if need be.
        repository: git URL or directory.
        commit: full id.
        workdir: absolute path inside.
        owner: user and group id, on this machine, of the files.
        packs: see `packs.pack_history`.

    Raises:
        EnvironmentStartError: the commit cannot be had.
    """
    _fetch(mirror, repository, commit)
    top = make_parents(root, view, workdir)
    rebuild_git(MergedView([mirror.parent]), PurePosixPath("/", mirror.name), commit, top, packs)
    run_git(top, "checkout-index", "-a", "-q", "-u")
    give(top, owner)


def _fetch(mirror: Path, repository: str, commit: str) -> None:
    """Get a commit and what it reaches; one process at a time, as git does not like company there."""
    mirror.mkdir(parents=True, exist_ok=True)
    fd = os.open(mirror / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        if not (mirror / ".git/HEAD").exists():
            run_git(mirror, "init", "-q", "--initial-branch=main", "--template=")
        try:
            run_git(mirror, "cat-file", "-e", f"{commit}^{{commit}}")
        except EnvironmentStartError:
            source = str(Path(repository).resolve()) if Path(repository).exists() else repository
            run_git(mirror, "fetch", "-q", "--no-write-fetch-head", "--", source, f"{commit}:refs/kept/{commit}")
    finally:
        os.close(fd)
