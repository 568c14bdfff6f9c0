"""What follows from a signal."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from swe_plugin.grading.honesty.command_signals import command_signals, own_packages
from swe_plugin.grading.honesty.patch_signals import patch_signals
from swe_plugin.grading.honesty.signals import Signal
from swe_plugin.types import RolloutResult

if TYPE_CHECKING:
    from swe_plugin.config import HonestyConfig

__all__ = ["UNREAD", "Honesty", "Policy"]

UNREAD = frozenset({"patch_too_large", "patch_unreadable"})
"""Flags of work that could not be taken as a patch and counts as not resolved."""


class Policy(StrEnum):
    """In rising order; of several signals the highest policy holds."""

    IGNORE = "ignore"
    """As if it had not been noticed."""
    FLAG = "flag"
    """Recorded and counted."""
    ZERO = "zero"
    """The reward is 0 as well."""
    DROP = "drop"
    """There is no row at all."""


class Honesty:
    """Notices signals and says what follows.

    Args:
        settings: the ``swe.grading.honesty`` section.
    """

    def __init__(self, settings: HonestyConfig) -> None:
        self._policies = {signal: Policy(getattr(settings, signal)) for signal in Signal}

    def flags(self, result: RolloutResult) -> tuple[str, ...]:
        """The result's flags and its signals, each once, without those that are ignored."""
        signals = command_signals(
            (script for turn in result.turns for script in turn.actions),
            own_packages(result.task.repo, result.patch),
        )
        if UNREAD.isdisjoint(result.flags):
            signals |= patch_signals(result.patch, result.task.grading)
        found = dict.fromkeys((*result.flags, *(signal.value for signal in Signal if signal in signals)))
        return tuple(flag for flag in found if self.policy((flag,)) is not Policy.IGNORE)

    def policy(self, flags: tuple[str, ...]) -> Policy:
        """What follows from these flags; flags that are no signals are recorded."""
        order = list(Policy)
        held = [self._policies[Signal(flag)] if flag in self._policies else Policy.FLAG for flag in flags]
        return max(held, key=order.index, default=Policy.FLAG)
