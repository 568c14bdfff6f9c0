"""The stream to a container's supervisor: the daemon's attach socket, without its framing."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import struct
from typing import Any

from swe_plugin.errors import EnvironmentStartError

__all__ = ["StreamDemuxer", "attach"]

logger = logging.getLogger(__name__)

_HEADER = struct.Struct(">BxxxI")
_STDOUT = 1


def attach(api: Any, container: str) -> socket.socket:
    """Connect to stdin, stdout and stderr of a created container. Blocking.

    Args:
        api: the SDK's `APIClient`.
        container: id or name.

    Raises:
        EnvironmentStartError: the connection is not a plain socket.
    """
    stream = api.attach_socket(container, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
    if isinstance(stream, ssl.SSLSocket) or not hasattr(stream, "fileno"):
        raise EnvironmentStartError(
            "docker: DOCKER_HOST must be a unix:// or plain tcp:// address; tunnel others: "
            "ssh -NL /tmp/docker.sock:/var/run/docker.sock HOST, then DOCKER_HOST=unix:///tmp/docker.sock"
        )
    try:
        return socket.socket(fileno=os.dup(stream.fileno()))
    finally:
        stream.close()


class StreamDemuxer:
    """Takes what an attach socket delivers and returns what the container wrote to stdout; logs stderr.

    Wire format: frames of an 8-byte header (stream number, three zeros, big-endian length) and the bytes
    (Docker Engine API, "Attach to a container").

    Args:
        label: for the log.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._buffer = bytearray()

    def __call__(self, data: bytes) -> bytes:
        """Bytes of stdout that `data` completes."""
        self._buffer += data
        found = []
        while len(self._buffer) >= _HEADER.size:
            kind, length = _HEADER.unpack_from(self._buffer)
            stop = _HEADER.size + length
            if len(self._buffer) < stop:
                break
            chunk = bytes(self._buffer[_HEADER.size : stop])
            del self._buffer[:stop]
            if kind == _STDOUT:
                found.append(chunk)
            else:
                logger.warning("%s: %s", self._label, chunk.decode(errors="replace").strip())
        return b"".join(found)
