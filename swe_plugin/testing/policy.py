"""`FaultyPolicy`: any policy, until its fault strikes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from swe_plugin.errors import ContextOverflow, PolicyError
from swe_plugin.policies.base import Policy
from swe_plugin.testing.faults import Fault, Faults
from swe_plugin.types import Message, Reply, Segment

__all__ = ["FaultyPolicy"]

_PLACES = range(3)


class FaultyPolicy:
    """Satisfies `policies.base.Policy`.

    Args:
        policy: what answers.
        faults: where faults come from.
        label: of the rollout.
    """

    def __init__(self, policy: Policy, faults: Faults, label: str) -> None:
        self._policy = policy
        self.fault = faults.policy(label)
        self._place = faults.place(f"{label} policy", _PLACES)
        self._calls = 0

    @property
    def segments(self) -> Sequence[Segment]:
        """Of the policy inside."""
        return self._policy.segments

    async def respond(self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] = ()) -> Reply:
        """Answer, or fail at the chosen call.

        Raises:
            PolicyError, ContextOverflow, RuntimeError: as the fault says.
        """
        self._calls += 1
        if self.fault is not None and self._calls > self._place:
            message = f"injected {self.fault} in call {self._calls}"
            errors = {Fault.POLICY_FAILS: PolicyError, Fault.POLICY_FULL: ContextOverflow}
            raise errors.get(self.fault, RuntimeError)(message)
        return await self._policy.respond(messages, tools=tools)
