"""The 512 bytes before each file of a tar, read by `tarfile`: faster, and without what it does for bombs."""

from __future__ import annotations

import tarfile
from typing import cast

from swe_plugin.environments.images.tape import Tape

__all__ = ["Header"]

_BLOCK = tarfile.BLOCKSIZE
_COMMON = frozenset(b"0125")
"""A file, a hard link, a link, a directory."""
_RECORDS = frozenset(b"xgX")
"""Kinds whose data are PAX records."""
_MAX_DIGITS = 20


class Header(tarfile.TarInfo):
    """A header of an archive on a `Tape`; a broken one is an error, where tarfile would take it for the end."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Header:
        """See `tarfile.TarInfo`.

        Raises:
            tarfile.ReadError: it is broken.
        """
        tape = cast("Tape", archive.fileobj)
        try:
            if (start := tape.peek(_BLOCK)) and len(start) == _BLOCK and start[156] in _RECORDS:
                size = cls.frombuf(start, archive.encoding or "utf-8", archive.errors or "strict").size
                _check_records(tape.peek(_BLOCK + -(-size // _BLOCK) * _BLOCK)[_BLOCK:])
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(str(error)) from error

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Header:
        """See `tarfile.TarInfo`, which takes three times as long; names of owners and the sum are left out."""
        header = cls._common(buf, encoding, errors) or super().frombuf(buf, encoding, errors)
        if header.size < 0:  # tarfile would go back, or to what it takes for the end
            raise tarfile.InvalidHeaderError(f"a size of {header.size}")  # type: ignore[attr-defined]
        return header

    @classmethod
    def _common(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Header | None:
        """None if it is one of the others: broken, large numbers, a device, a name of more than 100 bytes."""
        if len(buf) != _BLOCK or buf[156] not in _COMMON or buf[345] or buf[329:345].strip(b"0\0"):
            return None
        try:
            mode, uid, gid = _octal(buf[100:108]), _octal(buf[108:116]), _octal(buf[116:124])
            size, mtime, checksum = _octal(buf[124:136]), _octal(buf[136:148]), _octal(buf[148:156])
        except ValueError:
            return None
        if checksum != sum(buf) - sum(buf[148:156]) + 8 * ord(" "):
            return None
        name = _text(buf[:100], encoding, errors)
        header = cls(name.rstrip("/") if buf[156:157] == tarfile.DIRTYPE else name)
        header.mode, header.uid, header.gid, header.size, header.mtime = mode, uid, gid, size, mtime
        header.type, header.linkname = bytes(buf[156:157]), _text(buf[157:257], encoding, errors)
        return header


def _octal(field: bytes | bytearray) -> int:
    return int(field.partition(b"\0")[0], 8)


def _text(field: bytes | bytearray, encoding: str, errors: str) -> str:
    return field.partition(b"\0")[0].decode(encoding, errors)


def _check_records(data: bytes) -> None:
    """Whether PAX records (``<length> <key>=<value>\\n``) are as POSIX has them.

    Python before 3.11.10 looks for the end of a key beyond the end of its record, in time and memory that grow with the
    square of their number.

    Raises:
        tarfile.ReadError: they are not.
    """
    start = 0
    while start < len(data) and data[start]:
        space = data.find(b" ", start, start + _MAX_DIGITS)
        digits = data[start:space] if space > 0 else b""
        end = start + int(digits) if digits.isdigit() else 0
        if not space < end <= len(data) or data[end - 1 : end] != b"\n" or b"=" not in data[space:end]:
            raise tarfile.ReadError("damaged extended header")
        start = end
