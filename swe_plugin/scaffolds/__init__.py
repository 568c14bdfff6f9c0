"""Agents: what happens between a policy that answers and an environment that runs commands.

`Scaffold` is the contract and `Episode` the record it fills. Concrete agents are imported by name through the
plugin registry (``swe.scaffold.name``), so that this import stays light.
"""

from __future__ import annotations

from swe_plugin.scaffolds.base import Episode, Scaffold

__all__ = ["Episode", "Scaffold"]
