"""Frames of the socket between an owner and its sandbox: a JSON header and a binary payload.

Wire format: two unsigned 32-bit big-endian lengths, the header as UTF-8 JSON, the payload.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

__all__ = ["Decoder", "Frame", "encode"]

Frame = tuple[dict[str, Any], bytes]
_LENGTHS = struct.Struct("!II")


def encode(header: dict[str, Any], payload: bytes = b"") -> bytes:
    """One frame as bytes. Lone surrogates (undecodable file names) survive as JSON escapes."""
    text = json.dumps(header).encode()
    return b"".join((_LENGTHS.pack(len(text), len(payload)), text, payload))


class Decoder:
    """Cuts a byte stream into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Frames that `data` completes, in order."""
        self._buffer += data
        while len(self._buffer) >= _LENGTHS.size:
            n_header, n_payload = _LENGTHS.unpack_from(self._buffer)
            start, stop = _LENGTHS.size, _LENGTHS.size + n_header + n_payload
            if len(self._buffer) < stop:
                return
            header = json.loads(self._buffer[start : start + n_header])
            payload = bytes(self._buffer[start + n_header : stop])
            del self._buffer[:stop]
            yield header, payload
