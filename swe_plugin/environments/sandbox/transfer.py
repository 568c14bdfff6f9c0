"""The local end of upload and download: tar streams over a socket. Blocking; run in threads."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tarfile
from pathlib import Path, PurePosixPath
from typing import IO

from swe_plugin.environments.sandbox.zygote.files import TRUSTED

__all__ = ["receive_tree", "send_tree", "unpack_tree"]

_TOP = "item"
_BUFFER = 1 << 18


def send_tree(source: Path, target: str, end: socket.socket) -> None:
    """Write a local file or tree as a tar stream whose entries are named after `target`."""
    try:
        with end.makefile("wb") as stream, tarfile.open(fileobj=stream, mode="w|", bufsize=_BUFFER) as archive:
            archive.add(source, PurePosixPath(target).name or ".", filter=lambda member: _forget(archive, member))
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
                unpack_tree(stream, target, _TOP)
    finally:
        _shutdown(end, socket.SHUT_RDWR)


def unpack_tree(stream: IO[bytes], target: Path, top: str) -> None:
    """Unpack an archive, whose entries are named below `top`, at `target`; read to its end.

    Raises:
        PermissionError: an entry or a link would lead out of `target`.
    """
    links: list[Path] = []
    with tarfile.open(fileobj=stream, mode="r|", bufsize=_BUFFER) as archive:
        for member in archive:
            _unpack(archive, _forget(archive, member), target, top)
            links += [target / member.name] if member.issym() else []
    while stream.read(1 << 16):  # the padding after the last entry; the sender must not meet a closed pipe
        pass
    _refuse_links(links, target.resolve())


def _forget(archive: tarfile.TarFile, member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Keep no list of all entries: collecting the garbage among 100,000 of them stops every thread for long."""
    archive.members = []  # type: ignore[attr-defined]
    return member


def _shutdown(end: socket.socket, how: int) -> None:
    """Wake the other side, which may wait for this one."""
    with contextlib.suppress(OSError):
        end.shutdown(how)


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path, top: str) -> None:
    if member.name == top and not member.isdir():
        content = archive.extractfile(member)
        if content is None:
            raise PermissionError(f"{target}: not a regular file")
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            shutil.copyfileobj(content, file)
        target.chmod(member.mode & 0o755)
        return
    target.mkdir(parents=True, exist_ok=True)
    if member.name == top:
        return
    member.name = member.name.removeprefix(f"{top}/")
    if member.islnk():
        member.linkname = member.linkname.removeprefix(f"{top}/")
    _refuse_escapes(member, target.resolve())
    member.mode &= 0o755
    member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
    archive.extract(member, target, **TRUSTED)


def _refuse_links(links: list[Path], top: Path) -> None:
    """Look again when everything is there: a link over links that came later may lead elsewhere than it did."""
    for link in links:
        if not link.resolve().is_relative_to(top):
            link.unlink()
            raise PermissionError(f"{top}: refused: {link.name} leads outside")


def _refuse_escapes(member: tarfile.TarInfo, top: Path) -> None:
    """Refuse what would be written, or would lead, outside `top`; symlinks unpacked before count as they lead.

    Not left to `tarfile`'s filters, which Python 3.11 has from 3.11.4 on only.
    """
    places = [top / member.name]
    if member.issym():
        places.append(top / PurePosixPath(member.name).parent / member.linkname)
    elif member.islnk():
        places.append(top / member.linkname)
    elif not (member.isreg() or member.isdir()):
        raise PermissionError(f"{top}: refused: {member.name} is not a file, directory or link")
    for place in places:
        if not place.resolve().is_relative_to(top):
            raise PermissionError(f"{top}: refused: {member.name} leads outside")
