"""Directories: may they be written, and is there room?"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from swe_plugin.preflight.finding import Finding

__all__ = ["RAY_FULL", "room", "temporary_room", "writable"]

RAY_FULL = 0.95
"""Ray makes no objects on a file system that is fuller than this (its ``local_fs_capacity_threshold``)."""


def writable(path: Path, key: str, value: object) -> Finding:
    """Whether a directory could be made there, by making one in what exists of the path, and removing it."""
    existing = _existing(path)
    try:
        Path(tempfile.mkdtemp(prefix=".swe-", dir=existing)).rmdir()
    except OSError as error:
        reason = "is not a directory" if existing.exists() and not existing.is_dir() else error.strerror
        fix = f"cannot write there: {existing}: {reason}; give a directory that this user may write to"
        return Finding("directory", False, key=key, value=value, fix=fix)
    return Finding("directory", True, str(path))


def room(path: Path, needed_gib: float, key: str, value: object, purpose: str) -> Finding:
    """Whether the file system of a directory has so much left.

    Args:
        path: of the directory, which need not exist yet.
        needed_gib: GiB.
        key: setting that places it.
        value: of the setting.
        purpose: what fills it.
    """
    free = shutil.disk_usage(_existing(path)).free / 2**30
    return Finding(
        "disk",
        free >= needed_gib,
        f"{free:.0f} GiB free in {path}",
        key=key,
        value=value,
        fix=f"{free:.1f} GiB are free there and {needed_gib:.1f} are needed for {purpose}; name another disk",
    )


def temporary_room() -> Finding:
    """Whether Ray's objects and logs have room."""
    path = tempfile.gettempdir()
    usage = shutil.disk_usage(path)
    full = 1 - usage.free / usage.total if usage.total else 1.0
    return Finding(
        "temporary files",
        full < RAY_FULL,
        f"{path}: {usage.free / 2**30:.0f} GiB free",
        key="TMPDIR",
        value=path,
        fix=f"that disk is {full:.0%} full and Ray stores nothing above {RAY_FULL:.0%}: name another disk",
    )


def _existing(path: Path) -> Path:
    path = path.expanduser().absolute()
    return next(candidate for candidate in (path, *path.parents) if os.path.lexists(candidate))
