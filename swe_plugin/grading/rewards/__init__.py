"""Rewards: a weighted sum of components, each of them recorded."""

from __future__ import annotations

from swe_plugin.grading.rewards.rewards import Rewards

__all__ = ["Rewards"]
