"""From a rollout to verl's rows: one `AgentLoopOutput` per segment, all with the same fields.

verl's rules that shape a row (0.9.1): the reward is put on the last response token, which GAE skips unless
its mask is 1; a row without integer weight versions ends the step; a field that not every row has is
dropped for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput

from swe_plugin.tokens.rows import TokenRow, training_rows
from swe_plugin.types import RolloutResult
from swe_plugin.verl_adapter.members import Member, member_of

__all__ = ["MemberOutputs", "RowLimits", "failed_row", "rollout_outputs"]


class MemberOutputs(list[AgentLoopOutput]):
    """What our agent loop returns: its rows (none for a failed member) and the record of the rollout."""

    def __init__(self, outputs: Sequence[AgentLoopOutput], member: Member) -> None:
        super().__init__(outputs)
        self.member = member


@dataclass(frozen=True, slots=True)
class RowLimits:
    """Lengths that verl was told to expect, in tokens (``rollout.prompt_length``, ``response_length``)."""

    prompt_length: int
    response_length: int


def rollout_outputs(
    result: RolloutResult, limits: RowLimits, *, version: int, in_use: int | None = None
) -> MemberOutputs:
    """Rows of one rollout, in the order of its segments; each ends on a sampled token.

    Args:
        result: what the rollout produced; `reward` None means no row.
        limits: largest lengths.
        version: weight version of rows whose engine reported none.
        in_use: environments in use in this process, for the record.

    Raises:
        TokenStreamError: a segment is malformed or does not fit.
    """
    if result.reward is None:
        return MemberOutputs([], member_of(result, in_use=in_use))
    rows = training_rows(result.segments, limits.prompt_length, limits.response_length)
    sampled = sum(sum(row.response_mask) for row in rows)
    total = sum(len(row.prompt_ids) + len(row.response_ids) for row in rows)
    member = member_of(result, segments=len(rows), sampled=sampled, context=total - sampled, in_use=in_use)
    return MemberOutputs([_output(result, row, version) for row in rows], member)


def failed_row(end_id: int, *, version: int) -> AgentLoopOutput:
    """The row of a validation episode without a token: it counts as 0 and says that it failed.

    It carries one prompt and one response id with mask 0, because verl cannot store an empty row; validation
    rows are never trained.
    """
    return AgentLoopOutput(
        prompt_ids=[end_id],
        response_ids=[end_id],
        response_mask=[0],
        response_logprobs=[0.0],
        reward_score=0.0,
        num_turns=0,
        metrics=AgentLoopMetrics(),
        extra_fields=_extra_fields(version, version, resolved=False, failed=True),
    )


def _output(result: RolloutResult, row: TokenRow, version: int) -> AgentLoopOutput:
    oldest, newest = row.version_range
    timings = result.timings
    output = AgentLoopOutput(
        prompt_ids=row.prompt_ids,
        response_ids=row.response_ids,
        response_mask=row.response_mask,
        response_logprobs=row.response_log_probs,
        reward_score=result.reward,
        num_turns=sum(message.role != "system" for message in result.messages),
        metrics=AgentLoopMetrics(
            generate_sequences=timings.get("generate", 0.0),
            tool_calls=timings.get("exec", 0.0),
            compute_score=timings.get("grade", 0.0),
        ),
        extra_fields=_extra_fields(
            oldest if oldest >= 0 else version,
            newest if newest >= 0 else version,
            resolved=result.grade is not None and result.grade.resolved,
            failed=False,
        ),
    )
    if row.routed_experts is not None:
        output.routed_experts = row.routed_experts
    return output


def _extra_fields(oldest: int, newest: int, *, resolved: bool, failed: bool) -> dict[str, object]:
    """The same keys in every row; numbers below ``reward_extra_info`` become ``val-*`` metrics."""
    return {
        "min_global_steps": oldest,
        "max_global_steps": newest,
        "reward_extra_info": {"acc": float(resolved), "failed": float(failed)},
    }
