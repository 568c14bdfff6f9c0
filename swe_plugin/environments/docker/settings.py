"""``swe.environment.options`` of the docker backend."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from swe_plugin.errors import ConfigError

__all__ = ["DockerSettings"]

_PULL = ("never", "missing")


@dataclass(frozen=True, slots=True)
class DockerSettings:
    """What ``swe.environment.options`` may hold.

    Attributes:
        host: address of the daemon; default ``DOCKER_HOST``, else the local socket.
        user: ``uid:gid`` of the agent; default the image's own for ``docker:``, else 1000:1000.
        pull: ``missing`` fetches a ``docker:`` reference that is not on the daemon, ``never`` refuses.
        open_files: descriptors of one process.
        ready: containers that this process keeps started ahead of demand, of the images that were asked for last.
    """

    host: str = ""
    user: str = ""
    pull: str = "never"
    open_files: int = 4096
    ready: int = 0

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Parse and check.

        Raises:
            ConfigError: names the key of ``swe.environment.options``.
        """
        known = sorted(field.name for field in fields(cls))
        for name, value in options.items():
            if name not in known:
                _refuse(name, value, f"unknown option of the docker backend; known: {', '.join(known)}")
        found = {**options, "host": options.get("host") or os.environ.get("DOCKER_HOST") or cls.default_host()}
        numbers = str(found.get("user", "")).split(":")
        if found.get("user") and not (len(numbers) <= 2 and all(number.isdecimal() for number in numbers)):
            _refuse("user", found["user"], "must be UID:GID, two numbers")
        if found.get("pull", "never") not in _PULL:
            _refuse("pull", found["pull"], f"must be one of {', '.join(_PULL)}")
        for name, least in {"open_files": 64, "ready": 0}.items():
            number = found.get(name, least)
            if not isinstance(number, int) or number < least:
                _refuse(name, number, f"must be a number, at least {least}")
        return cls(**{**found, "user": str(found.get("user", ""))})

    @staticmethod
    def default_host() -> str:
        """The local socket."""
        return "unix:///var/run/docker.sock"


def _refuse(name: str, value: object, fix: str) -> None:
    raise ConfigError(f"swe.environment.options.{name}", value, fix)
