"""Containers that are made ahead of demand."""

from __future__ import annotations

import socket
import threading
from collections.abc import Hashable
from dataclasses import dataclass

__all__ = ["ReadyContainer", "ReadyContainers"]


@dataclass(frozen=True, slots=True)
class ReadyContainer:
    """Started, its supervisor waiting for a plan.

    Attributes:
        key: what containers must have in common to stand in for each other.
        name: of the container, which carries the lease of its daemon's user like any other.
        stream: to its supervisor, with whose end it ends.
    """

    key: Hashable
    name: str
    stream: socket.socket


class ReadyContainers:
    """Those that nobody has yet, oldest first. Thread-safe.

    Attributes:
        coming: how many are being made.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[ReadyContainer] = []
        self.coming = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, key: Hashable) -> ReadyContainer | None:
        """One that fits, no longer waiting."""
        with self._lock:
            found = next((one for one in self._waiting if one.key == key), None)
            if found is not None:
                self._waiting.remove(found)
            return found

    def expect(self, key: Hashable, at_most: int) -> tuple[bool, ReadyContainer | None]:
        """Ask for a place for one more.

        Args:
            key: its key.
            at_most: places in all; where none is free, the oldest of another key makes room.

        Returns:
            Whether there is a place, to be taken by `put`; and who has to go for it.
        """
        with self._lock:
            gone = None
            if len(self._waiting) + self.coming >= at_most:
                gone = next((one for one in self._waiting if one.key != key), None)
                if gone is None:
                    return False, None
                self._waiting.remove(gone)
            self.coming += 1
            return True, gone

    def put(self, made: ReadyContainer | None) -> None:
        """The expected one waits from now on, or could not be made."""
        with self._lock:
            self.coming -= 1
            if made is not None:
                self._waiting.append(made)

    def close(self) -> None:
        """End all that wait."""
        with self._lock:
            while self._waiting:
                self._waiting.pop().stream.close()
