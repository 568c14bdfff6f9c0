"""What is looked at before an episode starts, so that a mistake is one line and not a failed attempt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from swe_plugin.errors import ConfigError
from swe_plugin.preflight.space import writable

if TYPE_CHECKING:
    from swe_plugin.config import SweConfig
    from swe_plugin.plugins import Plugins
    from swe_plugin.types import Task

__all__ = ["check_backend", "check_episode", "check_writable"]


def check_episode(task: Task, config: SweConfig, plugins: Plugins) -> None:
    """Ask the backend about its settings and the image, and whether there is a reference fix to apply. Blocking.

    Raises:
        ConfigError: a setting cannot work here, or ``gold`` has nothing to apply.
        EnvironmentStartError: the image cannot.
        PluginError: the backend cannot be loaded.
    """
    if config.scaffold.name == "gold" and not task.gold_patch:
        raise ConfigError("task", task.instance_id, "has no gold_patch to apply: add one, or take another --policy")
    check_backend(config, plugins, task)


def check_backend(config: SweConfig, plugins: Plugins, task: Task | None = None) -> None:
    """Ask the backend about its settings, and about the image of `task` if there is one. Blocking.

    Raises:
        ConfigError, EnvironmentStartError, PluginError: see `check_episode`.
    """
    backend = plugins.load("environments", config.environment.backend, "swe.environment.backend")
    for name, argument in (("check", config.environment), ("check_image", task and task.image)):
        check = getattr(backend, name, None)  # both are optional
        if check is not None and argument is not None:
            check(argument)


def check_writable(directory: Path, key: str) -> None:
    """Raise `ConfigError` if the record could not be written there."""
    finding = writable(directory, key, str(directory))
    if not finding.ok:
        raise ConfigError(key, str(directory), finding.fix)
