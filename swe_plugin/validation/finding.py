"""What validating one task came to."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

__all__ = ["KEPT", "Finding", "Verdict"]


class Verdict(StrEnum):
    """The one thing that matters most about a task."""

    GOOD = "good"
    ORDER_DEPENDENT = "order-dependent tests"
    FLAKY = "flaky tests"
    GOLD_FAILS = "gold fails"
    EMPTY_PASSES = "empty passes"
    NO_GOLD = "no gold patch"
    BROKEN_IMAGE = "broken image"
    UNGRADABLE = "no verdict"


KEPT = (Verdict.GOOD, Verdict.ORDER_DEPENDENT)
"""Verdicts of tasks that can be trained on: graders always run a task's tests in the same order."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One task.

    Attributes:
        instance_id: of the task.
        image: what its image is made of, without the task's own files.
        verdict: see `Verdict`.
        detail: the reason, in one line; empty for a good task.
        tests: ids behind the verdict.
        mislabelled: F2P ids that pass on the untouched tree and P2P ids that fail there, each time.
        flags: integrity signals of the gold patch; they follow every honest solution.
        order_checked: its tests were run in random orders.
        start_s: the slowest start of an environment, in seconds.
        tests_s: the slowest grading, in seconds.
        total_s: all of it.
    """

    instance_id: str
    image: str
    verdict: Verdict
    detail: str = ""
    tests: tuple[str, ...] = ()
    mislabelled: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    order_checked: bool = False
    start_s: float = 0.0
    tests_s: float = 0.0
    total_s: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return dataclasses.asdict(self) | {"verdict": str(self.verdict)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Inverse of `to_json`, also after JSON made lists of tuples.

        Raises:
            TypeError, ValueError: not what `to_json` gave.
        """
        lists = {name: tuple(values[name]) for name in ("tests", "mislabelled", "flags")}
        return cls(**{**values, **lists, "verdict": Verdict(values["verdict"])})
