"""The repository layer: the files of a task as the only commit of a fresh git repository."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from swe_plugin.environments.images.git import run_git
from swe_plugin.errors import EnvironmentStartError

__all__ = ["build_repository", "give", "repository_key"]

_RECIPE = "repository-1"
_DATE = 1577836800
"""2020-01-01T00:00:00Z: time of every file and of the commit, so that equal files give equal commit ids."""


def repository_key(files: Mapping[str, str], workdir: str, owner: tuple[int, int]) -> str:
    """Digest of the layer: its files, where they go, and whom they belong to."""
    text = json.dumps([_RECIPE, sorted(files.items()), workdir, owner])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def build_repository(root: Path, files: Mapping[str, str], workdir: str, owner: tuple[int, int]) -> None:
    """Fill the empty directory `root`, an overlay layer, with the committed repository at `workdir`.

    Args:
        root: the layer.
        files: path relative to `workdir` -> text.
        workdir: absolute path inside the environment.
        owner: user and group id, on this machine, of the repository's files.

    Raises:
        EnvironmentStartError: a path would leave `workdir`, or git fails.
    """
    top = root / workdir.lstrip("/")
    top.mkdir(parents=True)
    for name, text in files.items():
        path = top / _checked(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        os.utime(path, (_DATE, _DATE))
    run_git(top, "init", "-q", "--initial-branch=main", "--template=")
    run_git(top, "add", "-A", "--force")
    run_git(top, "commit", "-q", "--allow-empty", "--no-verify", "-m", "base")
    (top / ".git/COMMIT_EDITMSG").unlink(missing_ok=True)
    shutil.rmtree(top / ".git/logs", ignore_errors=True)
    (top / ".git/info").mkdir(exist_ok=True)
    give(top, owner)


def _checked(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or not path.parts or ".." in path.parts or path.parts[0] == ".git" or "\0" in name:
        raise EnvironmentStartError(f"image.files: {name!r} is not a path inside the work directory")
    return path


def give(top: Path, owner: tuple[int, int]) -> None:
    """Make a directory and all in it the `owner`'s, who may change it."""
    for directory, names, files in os.walk(top):
        for name in (".", *names, *files):
            path = Path(directory) / name
            if os.geteuid() == 0:
                os.lchown(path, *owner)
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | 0o200 | (0o555 if path.is_dir() else 0o444))
