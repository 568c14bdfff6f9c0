"""A layer's bytes on their way into files: read ahead, digested, and never copied in Python."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tarfile
from collections.abc import Iterator
from queue import Full, Queue
from threading import Event, Thread
from types import TracebackType
from typing import Protocol

__all__ = ["Readable", "Tape"]

_CHUNK_BYTES = 1 << 18
"""Small enough to be in the processor's cache when it is written."""
_AHEAD = 32
_HEADER_BYTES = 1 << 20
_WAKE_S = 1.0


class Readable(Protocol):
    """A stream of bytes."""

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` bytes; empty at the end."""
        ...


class Tape:
    """A stream as `tarfile` reads archives, but forward only.

    A thread reads (and so decompresses) and digests what comes next, while the caller makes files of what came. What
    the stream raises, `read`, `pieces` and `drain` raise.

    Args:
        stream: read by the other thread until the `with` block ends, and by nobody else. Leaving the block waits for
            the read that goes on.
    """

    def __init__(self, stream: Readable) -> None:
        self._stream, self._hash = stream, hashlib.sha256()
        self._ahead: Queue[bytes | BaseException] = Queue(_AHEAD)
        self._closed = Event()
        self._thread = Thread(target=self._fill, name="swe-tape", daemon=True)
        self._chunk, self._at = b"", 0  # where in it
        self._before = 0  # how much came before it
        self._ended = False
        self._allowed = _HEADER_BYTES

    def __enter__(self) -> Tape:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closed.set()
        while self._thread.is_alive():
            while not self._ahead.empty():  # it may wait for room
                self._ahead.get()
            self._thread.join(0.05)

    @property
    def digest(self) -> str:
        """``sha256:<hex>`` of the whole stream, once it was drained."""
        return f"sha256:{self._hash.hexdigest()}"

    def tell(self) -> int:
        """Bytes that came before the next one."""
        return self._before + self._at

    def seek(self, position: int) -> None:
        """Leave out what comes before `position`.

        Raises:
            tarfile.StreamError: it has gone by.
        """
        if position < self.tell():
            raise tarfile.StreamError("seeking backwards is not allowed")
        for _ in self.pieces(position - self.tell()):
            pass

    def allow(self, size: int = _HEADER_BYTES) -> None:
        """From here on, `read` and `peek` give at most so many bytes: what headers may take, as all of it is kept."""
        self._allowed = size

    def read(self, size: int) -> bytes:
        """The next bytes; fewer than `size` at the end only.

        Raises:
            tarfile.ReadError: it is more than is allowed.
        """
        if size > self._allowed:
            raise tarfile.ReadError("headers larger than any archive needs")
        self._allowed -= size
        end = self._at + size
        if self._at <= end <= len(self._chunk):
            data = self._chunk[self._at : end]
            self._at = end
            return data
        return b"".join(self.pieces(size))

    def peek(self, size: int) -> bytes:
        """What `read` gives next."""
        if self._at + size > len(self._chunk):
            data = self.read(size)
            self._chunk, self._at, self._before = data + self._chunk[self._at :], 0, self.tell() - len(data)
            self._allowed += size
        return self._chunk[self._at : self._at + size]

    def write(self, fd: int, size: int) -> None:
        """Put the next `size` bytes into an open file.

        Raises:
            tarfile.ReadError: there are fewer.
            OSError: they cannot be written.
        """
        for piece in self.pieces(size):
            size -= len(piece)
            while piece:
                piece = piece[os.write(fd, piece) :]
        if size > 0:
            raise tarfile.ReadError("unexpected end of data")

    def pieces(self, size: int) -> Iterator[memoryview]:
        """The next `size` bytes, fewer at the end, as they lie in memory."""
        while size > 0 and (self._at < len(self._chunk) or self._turn()):
            piece = memoryview(self._chunk)[self._at : self._at + size]
            self._at += len(piece)
            size -= len(piece)
            yield piece

    def drain(self) -> None:
        """Let the rest go by."""
        while self._turn():
            pass
        self._at = len(self._chunk)

    def _turn(self) -> bool:
        """Go to the next chunk; False at the end."""
        if self._ended:
            return False
        came = self._ahead.get()
        if isinstance(came, BaseException):
            self._ended = True
            raise came
        self._before += len(self._chunk)
        self._chunk, self._at = came, 0
        self._ended = not came
        return bool(came)

    def _fill(self) -> None:
        try:
            while not self._closed.is_set():
                data = self._stream.read(_CHUNK_BYTES)
                self._hash.update(data)
                self._put(data)
                if not data:
                    return
        except BaseException as error:  # raised where it is read
            self._put(error)

    def _put(self, item: bytes | BaseException) -> None:
        while not self._closed.is_set():
            with contextlib.suppress(Full):
                self._ahead.put(item, timeout=_WAKE_S)
                return
