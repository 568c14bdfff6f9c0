"""The supervisor's end of the stream to its owner."""

from __future__ import annotations

import os
import selectors
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from swe_plugin.environments.sandbox.zygote.frames import Decoder, pieces

__all__ = ["Connect", "OnRequest", "OwnerGone", "OwnerLink"]

OnRequest: TypeAlias = Callable[[dict[str, Any], bytes], None]
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_CHUNK = 120 << 10
"""Below what the C library maps anew at each read (mallopt(3), M_MMAP_THRESHOLD)."""


class OwnerGone(Exception):
    """The owner closed the stream; the environment ends."""


class OwnerLink:
    """Frames in, frames out, without ever blocking.

    Args:
        reader, writer: descriptors, two different ones.
        selector: that the supervisor waits on.
        on_request: called with each frame.
    """

    def __init__(self, reader: int, writer: int, selector: selectors.BaseSelector, on_request: OnRequest) -> None:
        self._reader, self._writer, self._selector, self._on_request = reader, writer, selector, on_request
        self._decoder = Decoder()
        self._outbox: deque[memoryview] = deque()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        selector.register(reader, _READ, self._on_input)

    def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        """Send one frame, now or when there is room.

        Raises:
            OwnerGone: nobody is on the other side.
        """
        self._outbox.extend(pieces(header, payload))
        self._flush()

    def _on_input(self, _: int) -> None:
        try:
            data = os.read(self._reader, _CHUNK)
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
                sent = os.write(self._writer, self._outbox[0])
            except BlockingIOError:
                break
            except OSError as error:
                raise OwnerGone from error
            self._outbox[0] = self._outbox[0][sent:]
            if not self._outbox[0]:
                self._outbox.popleft()
        watched = self._writer in self._selector.get_map()
        if self._outbox and not watched:
            self._selector.register(self._writer, _WRITE, lambda _: self._flush())
        elif watched and not self._outbox:
            self._selector.unregister(self._writer)


Connect: TypeAlias = Callable[[selectors.BaseSelector, OnRequest], OwnerLink]
