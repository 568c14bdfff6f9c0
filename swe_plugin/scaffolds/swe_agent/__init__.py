"""Agents configured as for SWE-agent: templates, tool bundles, parse functions, history processors, limits."""

from swe_plugin.scaffolds.swe_agent.scaffold import SweAgentOptions, SweAgentScaffold

__all__ = ["SweAgentOptions", "SweAgentScaffold"]
