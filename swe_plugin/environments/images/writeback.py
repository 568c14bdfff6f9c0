"""What was written reaches the disk while more is written: kernels begin only seconds later."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from types import TracebackType

__all__ = ["Writeback", "written_out"]

_STRIDE_BYTES = 32 << 20


@contextmanager
def written_out(directory: Path) -> Iterator[None]:
    """What is written in this block is on the disk when it ends, as is all else in the file system of `directory`.

    Raises:
        OSError: something that was written since the block began could not be, whoever was told of it before.
    """
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield
        _sync(fd)
    finally:
        os.close(fd)


class Writeback:
    """Writes a file system out as it is filled; the last part is left to `written_out`.

    Args:
        directory: in that file system.
    """

    def __init__(self, directory: Path) -> None:
        self._fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._thread: Thread | None = None
        self._error: OSError | None = None
        self._new_bytes = 0

    def __enter__(self) -> Writeback:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._thread is not None:
            self._thread.join()
        os.close(self._fd)
        if self._error is not None and error is None:
            raise self._error

    def add(self, size_bytes: int) -> None:
        """So much more was written. Does not wait for the disk.

        Raises:
            OSError: what was written before could not be.
        """
        self._new_bytes += size_bytes
        if self._new_bytes < _STRIDE_BYTES or (self._thread is not None and self._thread.is_alive()):
            return
        if self._error is not None:
            raise self._error
        self._new_bytes = 0
        self._thread = Thread(target=self._run, name="swe-writeback", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            _sync(self._fd)
        except OSError as error:
            self._error = error


def _sync(fd: int) -> None:
    if ctypes.CDLL(None, use_errno=True).syncfs(fd):
        number = ctypes.get_errno()
        raise OSError(number, f"syncfs: {os.strerror(number)}")
