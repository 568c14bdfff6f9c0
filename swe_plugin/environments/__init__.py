"""Isolated workspaces in which agents and graders run commands.

`Environment` is the contract, `EnvironmentPool` starts them within a node's capacities and
`build_environment_factory` and `spec_for` lead from configuration to both. Backends are imported by name
through the plugin registry and never here, so that this import stays light.
"""

from __future__ import annotations

from swe_plugin.environments.base import Capability, Environment, EnvironmentLimits, EnvironmentSpec
from swe_plugin.environments.factory import AGENT_ENV, EnvironmentFactory, build_environment_factory, spec_for
from swe_plugin.environments.pool import EnvironmentPool, Lease, Slots

__all__ = [
    "AGENT_ENV",
    "Capability",
    "Environment",
    "EnvironmentFactory",
    "EnvironmentLimits",
    "EnvironmentPool",
    "EnvironmentSpec",
    "Lease",
    "Slots",
    "build_environment_factory",
    "spec_for",
]
