"""`RolloutResult`: everything one rollout produced."""

from __future__ import annotations

import socket
import traceback
from dataclasses import dataclass, field
from enum import StrEnum

from swe_plugin.types.command import ExecResult, Usage
from swe_plugin.types.conversation import Message
from swe_plugin.types.grade import Grade
from swe_plugin.types.segment import Segment
from swe_plugin.types.task import Task

__all__ = ["AttemptFailure", "Phase", "RolloutResult", "StopReason", "Turn"]


class StopReason(StrEnum):
    """Why a rollout ended. What follows from each is decided in one place, `rollout.outcome`."""

    SUBMITTED = "submitted"
    """The agent handed its work in."""
    STOPPED = "stopped"
    """The agent ended without handing in (its last turn had nothing left to do)."""
    MAX_TURNS = "max_turns"
    CONTEXT_FULL = "context_full"
    WALL_CLOCK = "wall_clock"
    FORMAT_ERRORS = "format_errors"
    ENVIRONMENT_START = "environment_start"
    ENVIRONMENT_LOST = "environment_lost"
    MODEL_ERROR = "model_error"
    GRADER_ERROR = "grader_error"
    SCAFFOLD_ERROR = "scaffold_error"
    """A bug in a scaffold or plugin raised, or the first prompt does not fit: no row, the record has the traceback."""
    DISHONEST = "dishonest"
    """Graded, and left out because ``swe.grading.honesty`` says ``drop`` for one of its signals."""
    ROLLOUT_TIMEOUT = "rollout_timeout"
    CANCELLED = "cancelled"


@dataclass(slots=True)
class Turn:
    """One agent turn: the actions it took and what came back (for the record, not for training).

    Attributes:
        actions: shell scripts that ran, in order.
        results: one per action.
        format_error: why no action could be read, or empty.
    """

    actions: list[str] = field(default_factory=list)
    results: list[ExecResult] = field(default_factory=list)
    format_error: str = ""


@dataclass(slots=True)
class AttemptFailure:
    """One failed attempt at a rollout or grading.

    Attributes:
        phase: ``start``, ``setup``, ``agent``, ``patch``, ``grade`` or ``control``.
        attempt: counted from 1.
        error: ``TypeName: message``.
        traceback: formatted with all its causes, for the record.
        stop: the stop reason that it gave a rollout's attempt; None for a grading.
        rollout: ``<instance>@<session>``.
        node: host name of where it happened.
    """

    phase: str
    attempt: int
    error: str
    traceback: str = ""
    stop: StopReason | None = None
    rollout: str = ""
    node: str = ""

    def __str__(self) -> str:
        return f"{self.rollout} on {self.node}: attempt {self.attempt}, {self.phase}: {self.error}"

    @classmethod
    def of(
        cls, error: BaseException, phase: str, attempt: int, rollout: str, stop: StopReason | None = None
    ) -> AttemptFailure:
        """The record of `error`, which was raised here."""
        text, trace = f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error))
        return cls(phase, attempt, text, trace, stop, rollout, socket.gethostname())


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of time in a rollout.

    Attributes:
        name: ``wait``, ``start``, ``generate``, ``exec``, ``patch`` or ``grade``.
        began: Unix time in seconds; that of a start ahead of time lies before the rollout.
        seconds: how long it took.
    """

    name: str
    began: float
    seconds: float


@dataclass(slots=True)
class RolloutResult:
    """Everything one rollout produced.

    Attributes:
        task: what was attempted.
        session: index of this sample in its group.
        stop: why it ended.
        reward: None when the rollout has no row (see `rollout.outcome`).
        rewards: value of each component of the reward, not weighted (``swe.grading.rewards``).
        grade: None when it was not or could not be graded.
        patch: unified diff against the recorded baseline.
        messages: the conversation.
        turns: commands and results.
        segments: token streams, in order; empty for policies without tokens.
        timings: phase -> seconds (``wait``, ``start``, ``hidden``, ``generate``, ``exec``, ``patch``, ``grade``,
            ``total``); ``hidden``, of environments started ahead, was over before the rollout began.
        phases: the same in order of time, one entry for each stretch, all attempts included.
        worker: ``<host>:<process id>`` of where it ran.
        failures: one per failed attempt.
        n_format_errors: answers in which no action could be read.
        flags: integrity signals of patch and grade, also where there is no grade, e.g. ``grader_timeout``.
        usage: what the policy reports to have used, failed attempts included, e.g. ``prompt_tokens``, ``cost_usd``.
        request_id: by which the journal knows the calls behind `segments`; empty for policies without a journal.
        notes: what an agent that calls the gateway did wrong there, one line each (docs/gateway.md).
        environment: what the last attempt's environment used; None if its backend cannot say.
    """

    task: Task
    session: int
    stop: StopReason
    reward: float | None = None
    grade: Grade | None = None
    patch: str = ""
    messages: list[Message] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)
    phases: list[Phase] = field(default_factory=list)
    worker: str = ""
    failures: list[AttemptFailure] = field(default_factory=list)
    n_format_errors: int = 0
    flags: tuple[str, ...] = ()
    usage: dict[str, float] = field(default_factory=dict)
    request_id: str = ""
    rewards: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    environment: Usage | None = None
