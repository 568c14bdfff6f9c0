"""Bounded collection of a command's output."""

from __future__ import annotations

from collections import deque

__all__ = ["OutputBuffer"]


class OutputBuffer:
    """Keeps the first and the last half of `limit` bytes and counts what it drops between them."""

    def __init__(self, limit: int) -> None:
        self._head_room = limit - limit // 2
        self._tail_limit = limit // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.dropped = 0

    def add(self, data: bytes) -> None:
        """Append; memory stays below the limit plus one chunk."""
        if room := self._head_room - len(self._head):
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail and self._tail_size - len(self._tail[0]) >= self._tail_limit:
            gone = self._tail.popleft()
            self._tail_size -= len(gone)
            self.dropped += len(gone)

    def take(self) -> tuple[bytes, int]:
        """What was kept, and the number of bytes dropped; the cut is marked in the text."""
        tail = b"".join(self._tail)
        excess = max(0, len(tail) - self._tail_limit)
        dropped = self.dropped + excess
        if not dropped:
            return bytes(self._head) + tail, 0
        mark = b"\n[... %d bytes dropped ...]\n" % dropped
        return bytes(self._head) + mark + tail[excess:], dropped
