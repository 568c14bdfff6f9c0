"""mini-swe-agent (https://mini-swe-agent.com), unmodified, on our environments and through the gateway."""

from swe_plugin.scaffolds.mini.scaffold import MiniOptions, MiniSweAgentScaffold

__all__ = ["MiniOptions", "MiniSweAgentScaffold"]
