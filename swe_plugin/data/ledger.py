"""A file of finished work, so that what takes hours goes on where it stopped."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from swe_plugin.errors import ConfigError

__all__ = ["Ledger"]


class Ledger:
    """JSON lines by key, written as each piece of work ends; of a key the last line counts.

    Use as a context manager: one process at a time. A line that was cut when its writer was killed is dropped.

    Args:
        path: made if it is not there.
        key: setting that names the directory, for the error.

    Attributes:
        done: key -> what was written, those of earlier runs included.
    """

    def __init__(self, path: Path, key: str) -> None:
        self._path, self._key = path, key
        self._fd = -1
        self.done: dict[str, dict[str, Any]] = {}

    def add(self, key: str, record: dict[str, Any]) -> None:
        """Append one piece of finished work; it is in the file when this returns."""
        line = json.dumps({"key": key, **record}) + "\n"  # all ASCII: a patch may hold what UTF-8 cannot
        _write(self._fd, line.encode("ascii"))
        self.done[key] = record

    def __enter__(self) -> Self:
        """Take the file and read it.

        Raises:
            ConfigError: another process has it, or it cannot be written or read.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ConfigError(self._key, str(self._path), f"cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._read()
        except BlockingIOError as error:
            os.close(self._fd)
            raise ConfigError(self._key, str(self._path), "another process is at work there") from error
        except ValueError as error:
            os.close(self._fd)
            raise ConfigError(self._key, str(self._path), f"is damaged ({error}): remove it to begin anew") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def _read(self) -> None:
        data = self._path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.ftruncate(self._fd, whole)
        for line in data[:whole].splitlines():
            record = json.loads(line)
            self.done[record.pop("key")] = record


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
