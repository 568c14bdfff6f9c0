"""Faults on purpose: to see what your plugin, your recipe or this package does when something breaks."""

from swe_plugin.testing.environment import FaultyEnvironment
from swe_plugin.testing.faults import Fault, Faults
from swe_plugin.testing.policy import FaultyPolicy

__all__ = ["Fault", "Faults", "FaultyEnvironment", "FaultyPolicy"]
