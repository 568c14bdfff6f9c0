"""What was written reaches the disk while more is written: kernels begin only seconds later."""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

__all__ = ["Writeback", "write_out"]

_STRIDE_BYTES = 32 << 20


def write_out(directory: Path) -> None:
    """Have all of the file system of `directory` on the disk. Blocking.

    Raises:
        OSError: something could not be written, which is told once only (syncfs(2)).
    """
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(fd):
            raise OSError(ctypes.get_errno(), "syncfs", str(directory))
    finally:
        os.close(fd)


class Writeback:
    """Writes a file system out as it is filled; the last part is left to who fills it.

    Args:
        directory: in that file system.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._thread = ThreadPoolExecutor(1, "swe-writeback")
        self._running: Future[None] | None = None
        self._new_bytes = 0

    def __enter__(self) -> Writeback:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._thread.shutdown()
        if self._running is not None and error is None:
            self._running.result()

    def add(self, size_bytes: int) -> None:
        """So much more was written.

        Raises:
            OSError: see `write_out`; of what was written before.
        """
        self._new_bytes += size_bytes
        if self._new_bytes < _STRIDE_BYTES or (self._running and not self._running.done()):
            return
        if self._running is not None:
            self._running.result()
        self._new_bytes = 0
        self._running = self._thread.submit(write_out, self._directory)
