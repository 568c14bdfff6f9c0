"""Signals of reward hacking, and what a recipe makes of them (`Honesty`)."""

from __future__ import annotations

from swe_plugin.grading.honesty.policy import UNREAD, Honesty, Policy
from swe_plugin.grading.honesty.signals import Signal

__all__ = ["UNREAD", "Honesty", "Policy", "Signal"]
