"""The failure matrix: what follows from each `StopReason`. One table, used wherever a rollout is judged.

The rule behind it: a failure of infrastructure is never a reward. It is retried where that is honest, and
otherwise it yields no row at all, because even a masked row would shift the mean of its group.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from swe_plugin.errors import (
    EnvironmentStartError,
    EnvironmentUnavailable,
    GraderError,
    PolicyError,
    RolloutCancelled,
)
from swe_plugin.types import StopReason

__all__ = ["MATRIX", "Outcome", "Retry", "Row", "outcome", "stop_for"]


class Retry(StrEnum):
    """What is tried again."""

    NONE = "-"
    FRESH = "fresh environment and policy, bounded, only before weights change"
    GRADE = "grade only, bounded"


class Row(StrEnum):
    """What the trainer gets."""

    TRAIN = "train"
    PARTIAL = "train (partial work)"
    """Trained like any other; kept apart so that a recipe may one day mask it."""
    NONE = "no row"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What follows from a stop reason.

    Attributes:
        retry: what is tried again before the reason is final.
        grade: the patch, partial or not, is graded.
        row: what the trainer gets.
        meaning: one line for the docs.
    """

    retry: Retry
    grade: bool
    row: Row
    meaning: str


MATRIX: dict[StopReason, Outcome] = {
    StopReason.SUBMITTED: Outcome(Retry.NONE, True, Row.TRAIN, "the agent handed its work in"),
    StopReason.STOPPED: Outcome(Retry.NONE, True, Row.TRAIN, "the agent ended without handing in"),
    StopReason.MAX_TURNS: Outcome(Retry.NONE, True, Row.PARTIAL, "`swe.scaffold.max_turns` answers were used"),
    StopReason.CONTEXT_FULL: Outcome(Retry.NONE, True, Row.PARTIAL, "no room for another answer"),
    StopReason.WALL_CLOCK: Outcome(Retry.NONE, True, Row.PARTIAL, "`swe.scaffold.wall_clock_s` is over"),
    StopReason.FORMAT_ERRORS: Outcome(
        Retry.NONE, True, Row.TRAIN, "`swe.scaffold.max_format_errors` answers in a row without a readable action"
    ),
    StopReason.ENVIRONMENT_START: Outcome(Retry.FRESH, False, Row.NONE, "no environment became ready"),
    StopReason.ENVIRONMENT_LOST: Outcome(Retry.FRESH, False, Row.NONE, "the environment died under the agent"),
    StopReason.MODEL_ERROR: Outcome(Retry.FRESH, False, Row.NONE, "the inference server failed to answer"),
    StopReason.GRADER_ERROR: Outcome(
        Retry.GRADE, False, Row.NONE, "no verdict: grader error, or grader time-out in a healthy environment; flagged"
    ),
    StopReason.SCAFFOLD_ERROR: Outcome(
        Retry.NONE,
        False,
        Row.NONE,
        "a bug in a scaffold or plugin raised, or the first prompt does not fit (it is never cut)",
    ),
    StopReason.DISHONEST: Outcome(
        Retry.NONE, False, Row.NONE, "graded, and left out by `swe.grading.honesty` (`drop`); flagged"
    ),
    StopReason.ROLLOUT_TIMEOUT: Outcome(
        Retry.NONE, False, Row.NONE, "`swe.failure.rollout_timeout_s` is over: slots, retries and grading took too long"
    ),
    StopReason.CANCELLED: Outcome(Retry.NONE, False, Row.NONE, "told to stop: staleness or shutdown"),
}
"""Every stop reason has exactly one line."""

_ERRORS: tuple[tuple[type[Exception], StopReason], ...] = (
    (EnvironmentStartError, StopReason.ENVIRONMENT_START),
    (EnvironmentUnavailable, StopReason.ENVIRONMENT_LOST),
    (PolicyError, StopReason.MODEL_ERROR),
    (GraderError, StopReason.GRADER_ERROR),
    (RolloutCancelled, StopReason.CANCELLED),
)


def outcome(stop: StopReason) -> Outcome:
    """The line of the matrix for `stop`."""
    return MATRIX[stop]


def stop_for(error: Exception) -> StopReason:
    """The stop reason of an exception that ended the agent. What nobody raises on purpose is a scaffold's bug."""
    return next((stop for kind, stop in _ERRORS if isinstance(error, kind)), StopReason.SCAFFOLD_ERROR)
