"""Frames of the socket between an owner and its sandbox: a JSON header and a binary payload.

Wire format: two unsigned 32-bit big-endian lengths, the header as UTF-8 JSON, the payload.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

__all__ = ["Decoder", "Frame", "encode", "pieces"]

Frame = tuple[dict[str, Any], bytes]
_LENGTHS = struct.Struct("!II")
_COPIED = 1 << 16
"""A payload up to this size is worth a copy for being sent by one call."""


def encode(header: dict[str, Any], payload: bytes = b"") -> bytes:
    """One frame as bytes. Lone surrogates (undecodable file names) survive as JSON escapes."""
    text = json.dumps(header).encode()
    return b"".join((_LENGTHS.pack(len(text), len(payload)), text, payload))


def pieces(header: dict[str, Any], payload: bytes) -> list[memoryview]:
    """The same, without a copy of a large payload: what to send one after the other."""
    if len(payload) <= _COPIED:
        return [memoryview(encode(header, payload))]
    text = json.dumps(header).encode()
    return [memoryview(_LENGTHS.pack(len(text), len(payload)) + text), memoryview(payload)]


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
            with memoryview(self._buffer) as whole:
                payload = bytes(whole[start + n_header : stop])
            del self._buffer[:stop]
            yield header, payload
