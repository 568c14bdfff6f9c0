"""Removing trees whose makers were not ours: commands in sandboxes, archives, the kernel's overlay."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

__all__ = ["remove_tree"]


def remove_tree(top: Path) -> None:
    """Like ``rm -r``, which also gets into directories without permissions. Links are removed, never followed.

    Raises:
        OSError: something is left.
    """
    if top.is_symlink() or top.is_file():
        top.unlink()
        return
    with contextlib.suppress(PermissionError):
        shutil.rmtree(top)
        return
    top.chmod(0o700)
    for directory, names, _ in os.walk(top):  # yields a directory before it looks into those that it names
        for name in names:
            path = Path(directory, name)
            if not path.is_symlink():
                path.chmod(0o700)
    shutil.rmtree(top)
