"""The local end of upload and download: tar streams over a socket. Blocking; run in threads."""

from __future__ import annotations

import contextlib
import os
import socket
import tarfile
from pathlib import Path, PurePosixPath
from typing import IO

from swe_plugin.environments.sandbox.zygote.trees import entries, extract, pack_tree

__all__ = ["receive_tree", "send_tree", "unpack_tree"]

_TOP = "item"


def send_tree(source: Path, target: str, end: socket.socket) -> None:
    """Write a local file or tree as a tar stream whose entries are named after `target`."""
    try:
        with end.makefile("wb") as stream:
            pack_tree(str(source), PurePosixPath(target).name or ".", stream)
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
    tree = _Tree(target)
    try:
        for archive, member in entries(stream):
            member.mode &= 0o755
            if member.name != top:
                tree.add(archive, member, member.name.removeprefix(f"{top}/"), member.linkname.removeprefix(f"{top}/"))
            elif member.isdir():
                target.mkdir(parents=True, exist_ok=True)
            elif member.isreg():
                target.parent.mkdir(parents=True, exist_ok=True)
                extract(archive, member, str(target.resolve()), "")
            else:
                raise PermissionError(f"{target}: not a regular file")
    finally:
        tree.check_links()


def _shutdown(end: socket.socket, how: int) -> None:
    """Wake the other side, which may wait for this one."""
    with contextlib.suppress(OSError):
        end.shutdown(how)


class _Tree:
    """A directory that nothing leads out of; symlinks unpacked before count as they lead.

    Not left to `tarfile`'s filters, which Python 3.11 has from 3.11.4 on only.
    """

    def __init__(self, target: Path) -> None:
        self._top = os.path.realpath(target)
        self._links: list[str] = []
        self._entered: set[str] = set()
        """Directories known to be inside, until there is a new link: one of them may be reached through it."""

    def add(self, archive: tarfile.TarFile, member: tarfile.TarInfo, name: str, first: str) -> None:
        """Unpack one entry, named from the directory on; `first` is what a hard link leads to, named likewise."""
        if not {"", ".", ".."}.isdisjoint(name.split("/")):
            raise PermissionError(f"{self._top}: refused: {name} leads outside")
        parent = name.rpartition("/")[0]
        self._enter(parent)
        if member.issym():
            self._check(str(Path(parent, member.linkname)))
        elif member.islnk():
            self._check(first)
        elif not (member.isreg() or member.isdir()):
            raise PermissionError(f"{self._top}: refused: {name} is not a file, directory or link")
        if member.issym() or member.islnk():  # a hard link may be one to a symlink
            self._links.append(name)
            self._entered.clear()
        extract(archive, member, f"{self._top}/{name}", f"{self._top}/{first}")

    def check_links(self) -> None:
        """Look again when everything is there: a link over links that came later may lead elsewhere than it did."""
        outside = [name for name in self._links if self._leads_out(name)]
        for name in outside:
            Path(self._top, name).unlink(missing_ok=True)  # another link may have taken its place
        if outside:
            raise PermissionError(f"{self._top}: refused: {outside[0]} leads outside")

    def _enter(self, directory: str) -> None:
        """Make sure that a directory is there, and inside."""
        if directory not in self._entered:
            self._check(directory)
            Path(self._top, directory).mkdir(parents=True, exist_ok=True)
            self._entered.add(directory)

    def _check(self, name: str) -> None:
        if self._leads_out(name):
            raise PermissionError(f"{self._top}: refused: {name} leads outside")

    def _leads_out(self, name: str) -> bool:
        return not Path(os.path.realpath(Path(self._top, name))).is_relative_to(self._top)
