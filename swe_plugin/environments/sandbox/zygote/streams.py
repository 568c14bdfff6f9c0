"""Bytes to and from a running command or file operation, in chunks that the owner pushes and pulls one at a time.

Each chunk is a request with an answer, so neither side ever holds more than one of them: a tree of any size passes
through a supervisor whose memory is bounded.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable
from typing import Any

__all__ = ["Streams"]

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_CHUNK = 1 << 18


class _Stream:
    def __init__(self, operation: int, end: socket.socket) -> None:
        self.operation, self.end = operation, end
        self.pushing: int | None = None
        self.pulling: int | None = None
        self.pending = memoryview(b"")


class Streams:
    """The supervisor's ends of the sockets to its commands and file operations.

    Args:
        selector: that the supervisor waits on.
        answer: called with the header and payload of each answer.
    """

    def __init__(self, selector: selectors.BaseSelector, answer: Callable[[dict[str, Any], bytes], None]) -> None:
        self._selector, self._answer = selector, answer
        self._streams: dict[int, _Stream] = {}

    def open(self, operation: int) -> int:
        """Descriptor of the operation's own end, which is its stdin and stdout; the caller closes it."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._streams[operation] = _Stream(operation, ours)
        return theirs.detach()

    def push(self, header: dict[str, Any], chunk: bytes) -> None:
        """Feed a chunk; an empty one is the end. Answered when it is written, or nobody wants it."""
        stream = self._streams.get(header["target"])
        if stream is None:
            self._answer({"id": header["id"]}, b"")
            return
        stream.pushing, stream.pending = header["id"], memoryview(chunk)
        if chunk:
            self._watch(stream)
        else:
            stream.end.shutdown(socket.SHUT_WR)
            self._pushed(stream)

    def pull(self, header: dict[str, Any], _: bytes) -> None:
        """Answer with the next chunk; an empty one is the end."""
        stream = self._streams.get(header["target"])
        if stream is None:
            self._answer({"id": header["id"]}, b"")
            return
        stream.pulling = header["id"]
        self._watch(stream)

    def close(self, operation: int) -> None:
        """Forget the stream of an operation, if it has one; who waits gets an empty answer."""
        stream = self._streams.pop(operation, None)
        if stream is None:
            return
        waiting = [number for number in (stream.pushing, stream.pulling) if number is not None]
        stream.pushing = stream.pulling = None
        self._watch(stream)
        stream.end.close()
        for number in waiting:
            self._answer({"id": number}, b"")

    def _watch(self, stream: _Stream) -> None:
        mask = (_WRITE if stream.pushing is not None else 0) | (_READ if stream.pulling is not None else 0)
        fd = stream.end.fileno()  # by number: the selector's keys outlive the socket
        known = fd in self._selector.get_map()
        if known:
            self._selector.unregister(fd)
        if mask:
            self._selector.register(fd, mask, lambda events: self._on_event(stream, events))

    def _on_event(self, stream: _Stream, events: int) -> None:
        if events & _WRITE:
            try:
                stream.pending = stream.pending[stream.end.send(stream.pending) :]
            except BlockingIOError:
                return
            except OSError:
                stream.pending = memoryview(b"")  # the operation has ended; its own answer says why
            if not stream.pending:
                self._pushed(stream)
        if events & _READ and stream.pulling is not None:
            try:
                chunk = stream.end.recv(_CHUNK)
            except BlockingIOError:
                return
            except OSError:
                chunk = b""
            number, stream.pulling = stream.pulling, None
            self._watch(stream)
            self._answer({"id": number}, chunk)
            if not chunk:
                self.close(stream.operation)

    def _pushed(self, stream: _Stream) -> None:
        number, stream.pushing = stream.pushing, None
        self._watch(stream)
        self._answer({"id": number}, b"")
