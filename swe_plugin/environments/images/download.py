"""A download that outlives its connection."""

from __future__ import annotations

import http.client
import io
from collections.abc import Callable
from http import HTTPStatus

__all__ = ["Download"]

_ATTEMPTS = 5
_SKIP = 1 << 20


class Download(io.RawIOBase):
    """The body of one document; where a connection breaks off, the next one goes on.

    Args:
        connect: asks for the document from a byte on; a server may ignore that and send all of it.
    """

    def __init__(self, connect: Callable[[int], http.client.HTTPResponse]) -> None:
        self._connect = connect
        self._response = connect(0)
        self._position, self._broken = 0, 0
        self._length = int(self._response.headers.get("Content-Length") or -1)

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """See `io.RawIOBase`.

        Raises:
            OSError: it broke off more than five times without a byte in between.
        """
        n_read, reason = 0, ""
        while not n_read and len(buffer):
            try:
                if reason:
                    self._go_on()
                n_read = self._response.readinto(buffer)
                reason = "the connection was closed"
            except (OSError, http.client.HTTPException) as error:
                reason = str(error) or type(error).__name__
            else:
                if n_read or self._length < 0 or self._position >= self._length:
                    break
            self._broken += 1
            if self._broken > _ATTEMPTS:
                raise OSError(f"the download broke off at byte {self._position} of {self._length}: {reason}")
        self._position += n_read
        self._broken = 0 if n_read else self._broken
        return n_read

    def _go_on(self) -> None:
        self._response.close()
        self._response = self._connect(self._position)
        if self._response.status != HTTPStatus.PARTIAL_CONTENT:
            left = self._position
            while left and (data := self._response.read(min(left, _SKIP))):
                left -= len(data)

    def close(self) -> None:
        """Close the connection."""
        self._response.close()
        super().close()
