"""A stream whose reader is watched."""

from __future__ import annotations

import io
from collections.abc import Callable

__all__ = ["OnRead", "metered"]

OnRead = Callable[[int], None]
"""Told the number of bytes after each read; called from the thread that reads, which is ahead of what is unpacked."""


def metered(stream: io.BufferedReader, on_read: OnRead | None) -> io.BufferedReader:
    """The same stream; `on_read` hears of what is read from it."""
    return stream if on_read is None else io.BufferedReader(_Metered(stream, on_read), 1 << 20)


class _Metered(io.RawIOBase):
    def __init__(self, stream: io.BufferedReader, on_read: OnRead) -> None:
        self._stream, self._on_read = stream, on_read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        n_read = self._stream.readinto(buffer)
        self._on_read(n_read)
        return n_read
