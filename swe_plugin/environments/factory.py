"""From configuration to environments: which class, and the spec of one environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from swe_plugin.environments.base import Environment, EnvironmentLimits, EnvironmentSpec
from swe_plugin.types import Image

if TYPE_CHECKING:
    from swe_plugin.config import EnvironmentConfig
    from swe_plugin.plugins import Plugins

__all__ = ["AGENT_ENV", "EnvironmentFactory", "build_environment_factory", "spec_for"]

EnvironmentFactory = Callable[[EnvironmentSpec], Environment]
"""Makes an unstarted environment from a spec."""

AGENT_ENV = {
    "HOME": "/home/agent",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONUNBUFFERED": "1",
}
"""All environment variables an agent has unless ``swe.environment.env`` adds some. Fixed values: nothing is
taken from this process, whose environment may carry API keys."""


def build_environment_factory(config: EnvironmentConfig, plugins: Plugins) -> EnvironmentFactory:
    """Look the configured backend up.

    Args:
        config: the ``swe.environment`` section.
        plugins: where backends are registered.

    Raises:
        ConfigError: no such backend is registered.
        PluginError: it is registered but cannot be imported.
    """
    backend: Callable[[EnvironmentSpec], Environment] = plugins.load(
        "environments", config.backend, "swe.environment.backend"
    )
    return backend


def spec_for(image: Image, config: EnvironmentConfig, *, label: str = "") -> EnvironmentSpec:
    """The spec of one environment.

    Args:
        image: of the task.
        config: the ``swe.environment`` section.
        label: instance and session, for leases and logs.
    """
    limits = EnvironmentLimits(
        memory_mib=config.memory_mib,
        pids=config.pids,
        cpus=config.cpus,
        disk_mib=config.disk_mib,
        output_bytes=config.output_bytes,
        start_timeout_s=config.start_timeout_s,
        image_timeout_s=config.image_timeout_s,
    )
    env = {**AGENT_ENV, **config.env}
    options = dict(config.options)
    return EnvironmentSpec(image, limits, env, config.network, label, options, config.image_cache_gib)
