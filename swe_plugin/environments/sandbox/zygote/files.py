"""File operations as confined children: what the agent may not do, they may not do either.

Each runs with stdin and stdout connected to the owner and ends the process: 0, or 74 with the error as JSON
on stderr.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import sys
import tarfile
from collections.abc import Callable

from swe_plugin.environments.sandbox.zygote.trees import entries, extract, pack_tree

__all__ = ["FAILED", "OPERATIONS", "READ_LIMIT"]

FAILED = 74
"""Exit code (EX_IOERR of sysexits.h) that says: stderr holds an error as JSON."""
READ_LIMIT = 64 << 20
"""Bytes of the largest file that `read_file` returns; larger ones go through `download`."""


def read(path: str, mode: int) -> None:
    """Copy a regular file to stdout."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode):
        code = errno.EISDIR if stat.S_ISDIR(info.st_mode) else errno.EINVAL
        raise OSError(code, "not a regular file", path)
    if info.st_size > READ_LIMIT:
        raise OSError(errno.EFBIG, f"larger than {READ_LIMIT >> 20} MiB, use download", path)
    while data := os.read(fd, 1 << 18):
        sys.stdout.buffer.write(data)


def write(path: str, mode: int) -> None:
    """Copy stdin to a regular file, making parent directories."""
    if parent := os.path.dirname(path):
        os.makedirs(parent, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    with os.fdopen(fd, "wb") as target:
        shutil.copyfileobj(sys.stdin.buffer, target, 1 << 18)
        os.fchmod(target.fileno(), mode)


def unpack(path: str, mode: int) -> None:
    """Unpack a tar stream on stdin; its entries are named below the last component of `path`."""
    parent = os.path.dirname(path.rstrip("/")) or "."
    os.makedirs(parent, exist_ok=True)
    for archive, member in entries(sys.stdin.buffer):
        extract(archive, member, os.path.join(parent, member.name), os.path.join(parent, member.linkname))


def pack(path: str, mode: int) -> None:
    """Write a tar stream of `path` to stdout; entries are named below ``item``."""
    pack_tree(os.path.realpath(path), "item", sys.stdout.buffer)


OPERATIONS: dict[str, Callable[[str, int], None]] = {"read": read, "write": write, "unpack": unpack, "pack": pack}


def run(operation: str, path: str, mode: int) -> None:
    """Run one operation and end the process."""
    try:
        OPERATIONS[operation](path, mode)
        sys.stdout.flush()
    except OSError as error:
        report = {"errno": error.errno or errno.EIO, "text": error.strerror or str(error), "path": path}
        os.write(2, json.dumps(report).encode())
        os._exit(FAILED)
    except (tarfile.TarError, ValueError) as error:
        os.write(2, json.dumps({"errno": errno.EINVAL, "text": str(error), "path": path}).encode())
        os._exit(FAILED)
    os._exit(0)
