"""The chosen backend on this machine: its own check, and dockerd where containers are wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from swe_plugin.errors import ConfigError
from swe_plugin.plugins import load_plugins
from swe_plugin.preflight.docker import look_at_docker
from swe_plugin.preflight.finding import Finding
from swe_plugin.verl_adapter.checks.settings import Settings

__all__ = ["check_environments"]


def check_environments(s: Settings) -> Iterator[Finding]:
    """Ask the backend itself. Of other nodes nothing is known here; their first start says it."""
    name = s.swe.environment.backend
    if name == "docker":
        yield look_at_docker(needed=True)
    try:
        backend = load_plugins().load("environments", name, "swe.environment.backend")
    except ConfigError:
        yield Finding("backend", True, "not looked at")  # `check_agent` says what is registered
        return
    check: Callable[..., str] | None = getattr(backend, "check", None)
    if check is None:
        yield Finding("backend", True, f"{name} has no check of its own")
        return
    yield Finding("backend", True, check(s.swe.environment))
