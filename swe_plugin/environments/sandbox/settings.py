"""Settings of ``swe.environment`` that no sandbox can be started with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swe_plugin.errors import ConfigError

__all__ = ["check_settings"]

_OPTIONS = frozenset({"mode", "open_files"})


def check_settings(memory_mib: int, disk_mib: int, options: Mapping[str, Any]) -> None:
    """Refuse options that do not exist and a disk that does not fit into the memory.

    Raises:
        ConfigError: names the key of ``swe.environment``.
    """
    if unknown := sorted(set(options) - _OPTIONS):
        fix = f"unknown option of the sandbox; known: {', '.join(sorted(_OPTIONS))}"
        raise ConfigError(f"swe.environment.options.{unknown[0]}", options[unknown[0]], fix)
    if disk_mib * 4 > memory_mib * 3:
        outer = f"swe.environment.memory_mib={memory_mib}"
        fix = f"must be at most three quarters of {outer}: written files count as memory"
        raise ConfigError("swe.environment.disk_mib", disk_mib, fix)
