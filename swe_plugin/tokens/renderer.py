"""How a conversation becomes token ids: the `Renderer` protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from swe_plugin.types import Message

__all__ = ["Renderer"]


@runtime_checkable
class Renderer(Protocol):
    """Renders the start of a conversation and what is added to it, never the past a second time."""

    @property
    def stop_ids(self) -> frozenset[int]:
        """Ids that end an assistant turn when sampled."""
        ...

    def initial(self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] = ()) -> list[int]:
        """Ids of the first prompt, generation prompt included."""
        ...

    def extension(self, messages: Sequence[Message], *, closed: bool) -> list[int]:
        """Ids between a sampled assistant turn and the next one: what the template puts after the turn's
        end, the new messages, and the generation prompt.

        Args:
            messages: only the new user or tool messages.
            closed: the assistant turn ended with a stop id; if not, the ids that close it come first.
        """
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Text of a sampled turn without its stop id."""
        ...
