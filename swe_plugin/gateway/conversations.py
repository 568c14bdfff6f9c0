"""`Conversations`: which of a rollout's conversations a request goes on with."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from swe_plugin.policies.base import Branching, Policy
from swe_plugin.types import Message

__all__ = ["Conversation", "Conversations"]

_THOUGHT_END = "</think>"


@dataclass(slots=True)
class Conversation:
    """One append-only exchange, which is one token segment unless its policy says otherwise.

    Attributes:
        policy: answers it.
        seen: messages up to and with the last answer, as the policy knows them.
        tools: offered in it.
        turn: whoever answers holds it.
    """

    policy: Policy
    seen: list[Message] = field(default_factory=list)
    tools: Sequence[Mapping[str, Any]] = ()
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def history(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[Message] | None:
        """The messages in the policy's own words if they go on from `seen`, or ask its last answer anew; else None."""
        known = self.seen
        if not known or list(tools) != list(self.tools):
            return None
        if len(messages) == len(known) - 1 and _same(messages, known[:-1]):
            return known[:-1]
        new = messages[len(known) :]
        if new and all(message.role != "assistant" for message in new) and _same(messages[: len(known)], known):
            return [*known, *new]
        return None


class Conversations:
    """All conversations of one rollout.

    A request that extends one of them continues it, and one that repeats its last question takes that answer back.
    Any other opens a new one: a sub-agent's, one after the agent compacted its history, a second branch of the same.

    Args:
        policy: the rollout's; one that is not `Branching` answers all of them in turn.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._all: list[Conversation] = []

    def find(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> tuple[Conversation, list[Message]]:
        """The conversation of a request, and the messages as its policy has to see them.

        One that is being answered is never continued: what comes beside it is another branch.
        """
        free = [conversation for conversation in self._all if not conversation.turn.locked()]
        fitting = [(c, history) for c in free if (history := c.history(messages, tools)) is not None]
        if fitting:
            return max(fitting, key=lambda found: len(found[0].seen))
        if self._all and not isinstance(self._policy, Branching):
            return self._all[0], list(messages)
        policy = self._policy.branch() if self._all and isinstance(self._policy, Branching) else self._policy
        self._all.append(Conversation(policy, tools=tools))
        return self._all[-1], list(messages)


def _same(messages: Sequence[Message], known: Sequence[Message]) -> bool:
    return all(a == b or _like(a, b) for a, b in zip(messages, known, strict=True))


def _like(sent: Message, known: Message) -> bool:
    """An answer that came back without its thoughts, trimmed, or with other call ids is still that answer."""
    return (
        sent.role == known.role == "assistant"
        and _said(sent) == _said(known)
        and [(c.name, c.arguments) for c in sent.tool_calls] == [(c.name, c.arguments) for c in known.tool_calls]
    )


def _said(message: Message) -> str:
    return message.content.rpartition(_THOUGHT_END)[2].strip()
