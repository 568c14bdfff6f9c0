"""What overlayfs reads in a layer: character devices 0/0 delete a name, a mark on a directory hides what is below.

The kernel's documentation (filesystems/overlayfs) calls them whiteouts and opaque directories. The mark is an
extended attribute: in ``trusted.`` for mounts by root, in ``user.`` for mounts in a user namespace (``userxattr``).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

__all__ = ["is_opaque", "is_whiteout", "make_opaque", "make_whiteout"]

_MARKS = ("user.overlay.opaque", "trusted.overlay.opaque")


def make_whiteout(path: Path | str) -> None:
    """Delete the name `path` of the layers below; nothing may be there in this layer.

    Raises:
        OSError: the file system cannot hold it.
    """
    os.mknod(path, stat.S_IFCHR, os.makedev(0, 0))


def is_whiteout(path: Path | str) -> bool:
    """Whether `path` is a whiteout."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        info = os.lstat(path)
        return stat.S_ISCHR(info.st_mode) and info.st_rdev == 0
    return False


def make_opaque(directory: Path | str) -> None:
    """Hide what the layers below hold in `directory`.

    Raises:
        OSError: the file system has no extended attributes of users (``mount -o user_xattr``).
    """
    os.setxattr(directory, _MARKS[0], b"y")
    if os.geteuid() == 0:
        os.setxattr(directory, _MARKS[1], b"y")


def is_opaque(directory: Path | str) -> bool:
    """Whether `directory` hides what is below."""
    for mark in _MARKS:
        try:
            if os.getxattr(directory, mark, follow_symlinks=False) == b"y":
                return True
        except OSError as error:
            if error.errno not in (errno.ENODATA, errno.ENOTSUP, errno.EPERM):
                raise
    return False
