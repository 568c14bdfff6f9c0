"""Procedural bugs: exact changes of source text, found on the syntax tree. Standard library only."""

from swe_plugin.synth.bugs.bug import Bug
from swe_plugin.synth.bugs.find import find_bugs
from swe_plugin.synth.bugs.kinds import KINDS

__all__ = ["KINDS", "Bug", "find_bugs"]
