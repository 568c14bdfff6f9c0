"""Where the pieces of an image lie: a directory or a tar archive on disk (a registry: `registry`)."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol, cast

from swe_plugin.environments.images.tape import Readable
from swe_plugin.environments.images.unpack import LayerError

__all__ = ["Blobs", "open_blobs", "plain"]

_KNOWN: dict[bytes, Any] = {b"BZh": bz2, b"\xfd7zXZ": lzma}
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class Blobs(Protocol):
    """Named pieces of an image."""

    def open(self, name: str) -> AbstractContextManager[io.BufferedReader]:
        """One piece.

        Raises:
            FileNotFoundError: there is none of that name.
        """
        ...

    def size(self, name: str) -> int:
        """Bytes of one piece; 0 if that is not known."""
        ...


def open_blobs(path: Path) -> Blobs:
    """The pieces of a layout directory or an archive.

    Raises:
        OSError: it cannot be read.
        tarfile.TarError: it is neither.
    """
    return _Directory(path) if path.is_dir() else _Archive(path)


def plain(stream: io.BufferedReader) -> Readable:
    """The stream without its compression, which its first bytes tell.

    Raises:
        LayerError: it cannot be undone here.
    """
    head = stream.peek(8)
    for magic, module in _KNOWN.items():
        if head.startswith(magic):
            return cast("Readable", module.open(stream, "rb"))
    if head.startswith(_GZIP):
        return _gunzip(stream)
    return _unzstd(stream) if head.startswith(_ZSTD) else stream


def _gunzip(stream: io.BufferedReader) -> Readable:
    try:
        from isal import igzip, isal_zlib
    except ImportError:  # half as fast
        return cast("Readable", gzip.open(stream, "rb"))
    return _Foreign(igzip.open(stream, "rb"), cast("type[Exception]", isal_zlib.error))


def _unzstd(stream: io.BufferedReader) -> Readable:
    try:
        import zstandard
    except ImportError:
        raise LayerError("a layer is compressed with zstd: pip install swe-plugin[images]") from None
    return _Foreign(zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True), zstandard.ZstdError)


class _Foreign:
    """A library's reader whose errors are of no builtin kind."""

    def __init__(self, reader: Readable, error: type[Exception]) -> None:
        self._reader, self._error = reader, error

    def read(self, size: int = -1, /) -> bytes:
        try:
            return self._reader.read(size)
        except self._error as error:
            raise LayerError(f"damaged: {error}") from error


class _Directory:
    def __init__(self, path: Path) -> None:
        self._path = path.resolve()

    @contextmanager
    def open(self, name: str) -> Iterator[io.BufferedReader]:
        path = (self._path / name).resolve()
        if not path.is_relative_to(self._path):
            raise FileNotFoundError(name)
        with path.open("rb") as file:
            yield file

    def size(self, name: str) -> int:
        return (self._path / name).stat().st_size if (self._path / name).is_file() else 0


class _Archive:
    """A tar, compressed or not, opened anew for every piece."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with tarfile.open(path) as archive:
            self._members = {member.name.removeprefix("./"): member for member in archive}

    @contextmanager
    def open(self, name: str) -> Iterator[io.BufferedReader]:
        if name not in self._members:
            raise FileNotFoundError(name)
        with tarfile.open(self._path) as archive:
            try:
                file = archive.extractfile(self._members[name])
            except KeyError:
                file = None  # a link to nothing
            if file is None:
                raise FileNotFoundError(name)
            yield cast("io.BufferedReader", file)

    def size(self, name: str) -> int:
        return self._members[name].size if name in self._members else 0
