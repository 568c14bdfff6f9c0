"""Trees as tar streams, on both sides of a sandbox's wall: fast for many small files, and with no list of them all."""

from __future__ import annotations

import contextlib
import os
import stat
import tarfile
from collections.abc import Iterator
from typing import IO

__all__ = ["entries", "extract", "pack_tree"]

_BUFFER = 1 << 18


def pack_tree(source: str, name: str, stream: IO[bytes]) -> None:
    """Write a file or tree whose entries are named below `name`; what is neither file, directory nor link is left out.

    Times are whole seconds: fractions would take a second header for each entry.
    """
    first_names: dict[tuple[int, int], str] = {}
    with tarfile.open(fileobj=stream, mode="w|", bufsize=_BUFFER, format=tarfile.GNU_FORMAT) as archive:
        archive.copybufsize = _BUFFER  # type: ignore[attr-defined]
        pending = [(source, name)]
        while pending:
            path, name = pending.pop()
            member = _describe(path, name, first_names)
            if member is None:
                continue
            if member.isdir():
                below = sorted(os.listdir(path), reverse=True)
                pending += [(f"{path}/{inside}", f"{name}/{inside}") for inside in below]
            if member.isreg():
                with open(path, "rb", buffering=0) as file:
                    archive.addfile(member, file)
            else:
                archive.addfile(member)
            archive.members.clear()  # type: ignore[attr-defined]  # see `entries`


def _describe(path: str, name: str, first_names: dict[tuple[int, int], str]) -> tarfile.TarInfo | None:
    info, member = os.lstat(path), tarfile.TarInfo(name)
    member.mode, member.mtime = stat.S_IMODE(info.st_mode), int(info.st_mtime)
    if stat.S_ISDIR(info.st_mode):
        member.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(info.st_mode):
        member.type, member.linkname = tarfile.SYMTYPE, os.readlink(path)
    elif not stat.S_ISREG(info.st_mode):
        return None
    elif info.st_nlink > 1 and (first := first_names.setdefault((info.st_dev, info.st_ino), name)) != name:
        member.type, member.linkname = tarfile.LNKTYPE, first
    else:
        member.size = info.st_size
    return member


def entries(stream: IO[bytes]) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """What an archive holds, one by one; the stream is read to its end.

    No list of all is kept: collecting the garbage among 100,000 of them stops every thread for long.
    """
    with tarfile.open(fileobj=stream, mode="r|", bufsize=_BUFFER) as archive:
        archive.copybufsize = _BUFFER  # type: ignore[attr-defined]
        while (member := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined]
            yield archive, member
    while stream.read(_BUFFER):  # the padding after the last entry; the sender must not meet a closed pipe
        pass


def extract(archive: tarfile.TarFile, member: tarfile.TarInfo, place: str, first: str) -> None:
    """Make one entry at `place`, whose parent is there. A file or link of its name gives way, a directory stays.

    Args:
        archive: where its content comes next.
        member: its mode counts, its owner does not.
        place: path, whose last part is not followed if it is a link, unless `member` is a directory.
        first: path of what a hard link leads to.
    """
    if member.isdir():
        try:
            os.mkdir(place)
            os.chmod(place, member.mode | stat.S_IRWXU)  # its own entries come next
        except FileExistsError:
            if not os.path.isdir(place):
                raise
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(place)
    if member.issym():
        os.symlink(member.linkname, place)
    elif member.islnk():
        os.link(first, place, follow_symlinks=False)
    else:
        archive.makefile(member, place)
        os.chmod(place, member.mode)
        os.utime(place, (member.mtime, member.mtime))
