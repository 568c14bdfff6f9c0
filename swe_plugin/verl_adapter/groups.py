"""The group rule: a failed member has no row, and a group with too few survivors is dropped whole.

A masked row would not do: verl's group statistics ignore the mask, so a masked failure of reward 0 would
shift the mean of its siblings. A missing row is exact. A lone survivor, whose "group mean" verl takes as 0,
would be trained on its raw reward, hence the minimum of two.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from swe_plugin.verl_adapter.members import Member

if TYPE_CHECKING:
    from verl.experimental.agent_loop.agent_loop import AgentLoopOutput

__all__ = ["PER_ROW_ESTIMATORS", "RunningGroup", "required_survivors"]

PER_ROW_ESTIMATORS = frozenset({"gae", "reinforce_plus_plus"})
"""Advantage estimators of verl that do not compare the members of a group."""


def required_survivors(estimator: str, *, min_survivors: int) -> int:
    """Members a group needs to be trained on.

    Args:
        estimator: ``algorithm.adv_estimator``.
        min_survivors: ``swe.failure.min_survivors``.
    """
    return 1 if estimator in PER_ROW_ESTIMATORS else min_survivors


@dataclass(slots=True)
class RunningGroup:
    """One prompt whose rollouts are running in this worker. Rows wait here until all of them have ended.

    Attributes:
        uid: verl's key of the prompt.
        partition: ``train`` or ``val``.
        size: number of rollouts.
        outputs: session -> rows and the arguments they came with.
        members: session -> record, in the order of their ends.
        telling: is to write the members to the group's tag, soon; None before the first has ended.
        complete: set when all rollouts have ended.
    """

    uid: str
    partition: str
    size: int
    outputs: dict[int, tuple[Sequence[AgentLoopOutput], Mapping[str, Any]]] = field(default_factory=dict)
    members: dict[int, Member] = field(default_factory=dict)
    telling: asyncio.Task[None] | None = None
    complete: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def validate(self) -> bool:
        """It belongs to a validation batch: every member has a row, failed ones count as 0."""
        return self.partition == "val"

    @property
    def survivors(self) -> list[int]:
        """Sessions that have a row, in order."""
        return sorted(session for session, (outputs, _) in self.outputs.items() if outputs)

    async def is_complete_within(self, seconds: float) -> bool:
        """Whether all rollouts have ended, at the latest then."""
        try:
            async with asyncio.timeout(seconds):
                await self.complete.wait()
        except TimeoutError:
            return False
        return True

    async def settle(self) -> None:
        """Let `telling` end, with nothing more to write."""
        self.complete.set()
        if self.telling is not None:
            await asyncio.wait([self.telling])

    def fail(self, member: Member) -> None:
        """Record a member that has no row after all."""
        self.outputs.pop(member.session, None)
        self.members[member.session] = member

    def member_tags(self) -> list[dict[str, Any]]:
        """Records of the members that have ended, as they go on the group's tag."""
        return [member.to_tag() for member in self.members.values()]
