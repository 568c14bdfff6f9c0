"""What answers an agent: a `Policy` turns a conversation into the next assistant message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from swe_plugin.types import Message, Reply, Segment

__all__ = ["Branching", "Policy"]


@runtime_checkable
class Policy(Protocol):
    """One per rollout. Scripted, keyboard, litellm and token-recording policies look alike to a scaffold.

    A policy that costs something may have an attribute ``usage`` (name -> amount), which the record keeps.
    """

    @property
    def segments(self) -> Sequence[Segment]:
        """Token streams recorded so far; empty for a policy that does not sample tokens itself."""
        ...

    async def respond(self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] = ()) -> Reply:
        """Answer the conversation.

        Args:
            messages: the whole history, oldest first. A history that extends the last one continues its
                token segment; any other opens a new one.
            tools: JSON schemas in OpenAI's form, or empty.

        Raises:
            ContextOverflow: no room is left for an answer.
            PolicyError: the server failed after bounded retries.
        """
        ...


@runtime_checkable
class Branching(Policy, Protocol):
    """A policy that records tokens, and can hold several conversations of one rollout at the same time."""

    def branch(self) -> Policy:
        """A policy for a conversation beside the others, whose segments are among those of this one."""
        ...
