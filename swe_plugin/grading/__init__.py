"""Judging patches: an agent's changes go in, a `Grade` comes out, or an error that says why there is none.

`Grader` is the contract. Concrete graders are imported by name through the plugin registry
(``swe.grading.grader``), so that this import stays light.
"""

from __future__ import annotations

from swe_plugin.grading.base import Grader

__all__ = ["Grader"]
