"""dockerd: does it answer?"""

from __future__ import annotations

import os
import socket
from urllib.parse import urlsplit

from swe_plugin.preflight.finding import Finding

__all__ = ["look_at_docker"]

_DEFAULT = "unix:///var/run/docker.sock"
_TIMEOUT_S = 5.0


def look_at_docker(*, needed: bool) -> Finding:
    """Ask the daemon that ``DOCKER_HOST`` names whether it lives.

    Args:
        needed: the recipe's environments are containers; otherwise an absent daemon is no failure.
    """
    address = os.environ.get("DOCKER_HOST") or _DEFAULT
    reason = _ping(address)
    unused = "; only swe.environment.backend=docker needs it"
    return Finding(
        "dockerd",
        not (reason and needed),
        f"{address}: {reason or 'answers'}" + (unused if reason and not needed else ""),
        key="DOCKER_HOST",
        value=address,
        fix=f"dockerd does not answer ({reason}): start it, let this user use its socket, "
        "or take swe.environment.backend=sandbox",
    )


def _ping(address: str) -> str:
    """Empty if ``GET /_ping`` is answered with 200, else the reason. Over TLS only the connection is tried."""
    parts = urlsplit(address)
    try:
        if parts.scheme == "unix":
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.settimeout(_TIMEOUT_S)
            connection.connect(parts.path)
        else:
            connection = socket.create_connection((parts.hostname or "", parts.port or 2375), _TIMEOUT_S)
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    with connection:
        if os.environ.get("DOCKER_TLS_VERIFY"):
            return ""
        try:
            connection.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            status = connection.recv(64).split(b"\r\n")[0].decode(errors="replace")
        except OSError as error:
            return str(error)
    return "" if " 200 " in f"{status} " else f"it says {status!r}"
