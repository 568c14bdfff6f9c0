"""`Member`: what became of one rollout, in a form that travels on the tag of its group.

A rollout without a row would leave no trace in verl's queue, whose rows are all it has. So the worker writes
one small record per rollout to the tag of the group's prompt key, which verl's replay buffer lists anyway:
no further actor, and no process on the path of a command.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from swe_plugin.rollout.outcome import Retry, outcome
from swe_plugin.types import RolloutResult, StopReason

__all__ = ["CAUSE_CHARS", "Member", "crashed_member", "member_of"]

CAUSE_CHARS = 500
"""Length to which causes are cut on a tag; the whole text is in the rollout's own record."""


@dataclass(frozen=True, slots=True)
class Member:
    """One rollout of a group. Times are wall-clock seconds; None means that the phase was not reached.

    Attributes:
        session: index in the group.
        stop: value of its `StopReason`.
        cause: why it has no row; empty for a survivor.
        resolved: whether its patch was graded as resolved; None if it was not graded.
        wait_s, start_s: waiting for a slot, and for the start of the environment.
        hidden_s: of the start, what was over before the rollout began; None if nothing was.
        generate_s, exec_s: waiting for the model, and running commands.
        grade_s: grading, None when not graded.
        total_s: the whole rollout.
        grade_cached: the grade came from the cache.
        empty_patch: the agent changed nothing; None if no patch was taken.
        apply_failed: its patch did not apply to the baseline that it was taken from.
        format_errors: answers in which no action could be read.
        retries: attempts after the first, each in a fresh environment.
        lost: environments that died under the agent.
        cpu_s, memory_mib: what its environment used; None if that is not known.
        in_use: environments in use in its process when it ended, gradings' too.
        sampled_tokens, context_tokens: ids with mask 1, and all others, over all rows.
        segments: rows.
        flags: of the rollout, separated by blanks.
        reward: what its rows carry; None without rows.
        rewards: value of each component of the reward, not weighted.
    """

    session: int
    stop: str
    cause: str = ""
    resolved: bool | None = None
    wait_s: float | None = None
    start_s: float | None = None
    hidden_s: float | None = None
    generate_s: float | None = None
    exec_s: float | None = None
    grade_s: float | None = None
    total_s: float | None = None
    grade_cached: bool = False
    empty_patch: bool | None = None
    apply_failed: bool = False
    format_errors: int = 0
    retries: int = 0
    lost: int = 0
    cpu_s: float | None = None
    memory_mib: float | None = None
    in_use: int | None = None
    sampled_tokens: int = 0
    context_tokens: int = 0
    segments: int = 0
    flags: str = ""
    reward: float | None = None
    rewards: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """It has no row."""
        return bool(self.cause)

    def to_tag(self) -> dict[str, Any]:
        """Plain values, defaults left out."""
        blank = Member(self.session, self.stop)
        names = [field.name for field in dataclasses.fields(self)]
        changed = {name: getattr(self, name) for name in names if getattr(self, name) != getattr(blank, name)}
        return {"session": self.session, "stop": self.stop, **changed}

    @classmethod
    def from_tag(cls, tag: Mapping[str, Any]) -> Member:
        """Inverse of `to_tag`."""
        return cls(**tag)


def member_of(
    result: RolloutResult, *, segments: int = 0, sampled: int = 0, context: int = 0, in_use: int | None = None
) -> Member:
    """The record of a finished rollout.

    Args:
        result: what the rollout produced.
        segments: rows it has; 0 makes it a failed member, whatever its reward.
        sampled, context: ids with mask 1, and all others, over its rows.
        in_use: environments in use in its process.
    """
    timings, grade = result.timings, result.grade
    return Member(
        session=result.session,
        stop=str(result.stop),
        cause="" if segments else _cause(result),
        resolved=None if grade is None else grade.resolved,
        wait_s=timings.get("wait"),
        start_s=timings.get("start"),
        hidden_s=timings.get("hidden"),
        generate_s=timings.get("generate"),
        exec_s=timings.get("exec"),
        grade_s=None if grade is None else timings.get("grade"),
        total_s=timings.get("total"),
        grade_cached=grade is not None and grade.cached,
        empty_patch=None if grade is None else not result.patch,
        apply_failed=any(f.phase == "grade" and f.error.startswith("PatchError:") for f in result.failures),
        format_errors=result.n_format_errors,
        retries=_retries(result),
        lost=sum(failure.stop == StopReason.ENVIRONMENT_LOST for failure in result.failures),
        cpu_s=result.environment.cpu_s if result.environment else None,
        memory_mib=result.environment.memory_mib if result.environment else None,
        in_use=in_use,
        sampled_tokens=sampled,
        context_tokens=context,
        segments=segments,
        flags=" ".join(result.flags),
        reward=result.reward if segments else None,
        rewards=dict(result.rewards),
    )


def crashed_member(session: int, cause: str, *, stop: StopReason = StopReason.SCAFFOLD_ERROR) -> Member:
    """The record of a rollout that raised, or whose process died."""
    return Member(session=session, stop=str(stop), cause=cause[:CAUSE_CHARS] or str(stop))


def _retries(result: RolloutResult) -> int:
    """Failed attempts that another one followed: none follows one that gave the rollout its own stop reason."""
    failed = [failure.stop for failure in result.failures if failure.stop is not None]
    fresh = sum(outcome(stop).retry is Retry.FRESH for stop in failed)
    return fresh - (bool(failed) and outcome(result.stop).retry is Retry.FRESH)


def _cause(result: RolloutResult) -> str:
    if result.reward is not None:
        return f"{result.stop}: no sampled token"
    last = result.failures[-1].error if result.failures else ""
    return f"{result.stop}: {last}"[:CAUSE_CHARS].rstrip(": ")
