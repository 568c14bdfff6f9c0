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
        excess = max(0, self._tail_size - self._tail_limit)
        dropped = self.dropped + excess
        mark = b"\n[... %d bytes dropped ...]\n" % dropped if dropped else b""
        tail = [memoryview(chunk) for chunk in self._tail]
        if excess:  # less than the oldest chunk
            tail[0] = tail[0][excess:]
        return b"".join((self._head, mark, *tail)), dropped
