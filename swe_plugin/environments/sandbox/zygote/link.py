"""The supervisor's end of the socket to its owner."""

from __future__ import annotations

import selectors
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from swe_plugin.environments.sandbox.zygote.frames import Decoder, encode

__all__ = ["Connect", "OnRequest", "OwnerGone", "OwnerLink"]

OnRequest: TypeAlias = Callable[[dict[str, Any], bytes], None]
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_CHUNK = 1 << 18


class OwnerGone(Exception):
    """The owner closed the socket; the sandbox ends."""


class OwnerLink:
    """Frames in, frames out, without ever blocking.

    Args:
        channel: a stream socket.
        selector: that the supervisor waits on.
        on_request: called with each frame.
    """

    def __init__(self, channel: socket.socket, selector: selectors.BaseSelector, on_request: OnRequest) -> None:
        self._channel, self._selector, self._on_request = channel, selector, on_request
        self._decoder = Decoder()
        self._outbox: deque[memoryview] = deque()
        channel.setblocking(False)
        selector.register(channel, _READ, self._on_event)

    def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        """Send one frame, now or when the socket has room.

        Raises:
            OwnerGone: nobody is on the other side.
        """
        self._outbox.append(memoryview(encode(header, payload)))
        self._flush()

    def _on_event(self, mask: int) -> None:
        if mask & _WRITE:
            self._flush()
        if mask & _READ:
            try:
                data = self._channel.recv(_CHUNK)
            except BlockingIOError:
                return
            except OSError as error:
                raise OwnerGone from error
            if not data:
                raise OwnerGone
            for header, payload in self._decoder.feed(data):
                self._on_request(header, payload)

    def _flush(self) -> None:
        while self._outbox:
            try:
                sent = self._channel.send(self._outbox[0])
            except BlockingIOError:
                break
            except OSError as error:
                raise OwnerGone from error
            self._outbox[0] = self._outbox[0][sent:]
            if not self._outbox[0]:
                self._outbox.popleft()
        self._selector.modify(self._channel, _READ | (_WRITE if self._outbox else 0), self._on_event)


Connect: TypeAlias = Callable[[selectors.BaseSelector, OnRequest], OwnerLink]
