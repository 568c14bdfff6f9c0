"""`GroupLedger`: the driver's account of every group it has seen end, rows or no rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from swe_plugin.verl_adapter.members import Member

__all__ = ["Group", "GroupLedger"]


@dataclass(slots=True)
class Group:
    """One prompt and its rollouts, as its tag tells.

    Attributes:
        uid: verl's key of the prompt.
        status: ``pending``, ``running``, ``finished`` or ``failure``.
        index: row of the dataset, for a stable order.
        members: rollouts that have ended, in the order of their ends.
    """

    uid: str
    status: str = "pending"
    index: int = 0
    members: list[Member] = field(default_factory=list)

    @property
    def dropped(self) -> bool:
        """It ended without a row: too few survivors."""
        return self.status == "failure"

    @property
    def zero_advantage(self) -> bool:
        """All its survivors have the same reward, and more than one has survived."""
        rewards = [member.reward for member in self.members if not member.failed]
        return len(rewards) > 1 and None not in rewards and len(set(rewards)) == 1


class GroupLedger:
    """Keeps groups from the moment their first member ends until they are taken for the step's metrics."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}

    def observe(self, tags: Mapping[str, Mapping[str, Any]]) -> list[Member]:
        """Read the tags of one partition.

        Args:
            tags: key -> tag, those of rows among them (they are skipped).

        Returns:
            Members that had not been seen before.
        """
        new: list[Member] = []
        for key, tag in tags.items():
            if not tag.get("is_prompt"):
                continue
            group = self._groups.setdefault(key, Group(key))
            group.status, group.index = str(tag.get("status", group.status)), int(tag.get("index", group.index))
            told = tag.get("members") or []
            seen = len(group.members)
            if seen and (len(told) < seen or Member.from_tag(told[0]) != group.members[0]):
                # it was started again: its worker died, or the run was resumed
                group.members, seen = [], 0
            fresh = [Member.from_tag(member) for member in told[seen:]]
            group.members += fresh
            new += fresh
        return new

    def index(self, uid: str) -> int:
        """Dataset row of a group; 0 if it was never seen."""
        return self._groups[uid].index if uid in self._groups else 0

    def zero_advantage(self, uids: Iterable[str]) -> set[str]:
        """Those of `uids` whose group is such a one."""
        return {uid for uid in uids if uid in self._groups and self._groups[uid].zero_advantage}

    def take(self, uids: Iterable[str]) -> list[Group]:
        """Remove groups that leave verl's queue and hand them over."""
        return [self._groups.pop(uid) for uid in uids if uid in self._groups]
