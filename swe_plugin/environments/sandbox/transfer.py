"""The local end of upload and download: tar streams over a socket. Blocking; run in threads."""

from __future__ import annotations

import contextlib
import shutil
import socket
import tarfile
from pathlib import Path, PurePosixPath

__all__ = ["receive_tree", "send_tree"]

_TOP = "item"


def send_tree(source: Path, target: str, end: socket.socket) -> None:
    """Write a local file or tree as a tar stream whose entries are named after `target`."""
    try:
        with end.makefile("wb") as stream, tarfile.open(fileobj=stream, mode="w|") as archive:
            archive.add(source, PurePosixPath(target).name or ".")
    finally:
        _shutdown(end, socket.SHUT_WR)


def receive_tree(end: socket.socket, target: Path) -> None:
    """Unpack a tar stream, whose entries are named below ``item``, at `target`.

    Raises:
        PermissionError: an entry or a link would lead out of `target`.
    """
    try:
        with end.makefile("rb") as stream:
            if stream.peek(1):  # nothing came: the other side says why
                with tarfile.open(fileobj=stream, mode="r|") as archive:
                    for member in archive:
                        _unpack(archive, member, target)
    finally:
        _shutdown(end, socket.SHUT_RDWR)


def _shutdown(end: socket.socket, how: int) -> None:
    """Wake the other side, which may wait for this one."""
    with contextlib.suppress(OSError):
        end.shutdown(how)


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    if member.name == _TOP and not member.isdir():
        content = archive.extractfile(member)
        if content is None:
            raise PermissionError(f"{target}: not a regular file")
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            shutil.copyfileobj(content, file)
        target.chmod(member.mode & 0o755)
        return
    target.mkdir(parents=True, exist_ok=True)
    if member.name == _TOP:
        return
    member.name = member.name.removeprefix(f"{_TOP}/")
    if member.islnk():
        member.linkname = member.linkname.removeprefix(f"{_TOP}/")
    try:
        archive.extract(member, target, filter="data")
    except tarfile.FilterError as error:
        raise PermissionError(f"{target}: refused: {error}") from error
