"""Rollouts: a task, an environment and a policy become a `RolloutResult`, whatever fails on the way.

`outcome` is the failure matrix, the one place that says what is retried, graded and trained on.
"""

from __future__ import annotations

from swe_plugin.rollout.outcome import MATRIX, Outcome, Retry, Row, outcome, stop_for

__all__ = ["MATRIX", "Outcome", "Retry", "Row", "outcome", "stop_for"]
