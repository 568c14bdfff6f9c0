"""Ports that a setting names: is somebody else listening?"""

from __future__ import annotations

import socket

from swe_plugin.preflight.finding import Finding

__all__ = ["port_is_free"]


def port_is_free(port: int, key: str, fix: str, *, host: str = "127.0.0.1") -> Finding:
    """Bind the port for a moment.

    Args:
        port: number.
        key: setting that names it.
        fix: what to write instead.
        host: address that the setting's user would bind.
    """
    reason = ""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((host, port))
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
    return Finding("port", not reason, f"{port} is free", key=key, value=port, fix=f"{reason}; {fix}")
