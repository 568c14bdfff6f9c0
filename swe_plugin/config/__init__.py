"""Schema of the ``swe:`` section, the only configuration that is ours; every other key is verl's.

Dataclasses are the schema (types, defaults, one docstring per field); OmegaConf merges and checks.
Precedence, low to high: these defaults, recipe YAML, user YAML, command line.
"""

from __future__ import annotations

from swe_plugin.config.load import check_key, load_config, read_options
from swe_plugin.config.schema import (
    DemoConfig,
    EnvironmentConfig,
    FailureConfig,
    GradingConfig,
    HonestyConfig,
    OutputConfig,
    PolicyConfig,
    ScaffoldConfig,
    SlotsConfig,
    SweConfig,
)

__all__ = [
    "DemoConfig",
    "EnvironmentConfig",
    "FailureConfig",
    "GradingConfig",
    "HonestyConfig",
    "OutputConfig",
    "PolicyConfig",
    "ScaffoldConfig",
    "SlotsConfig",
    "SweConfig",
    "check_key",
    "load_config",
    "read_options",
]
