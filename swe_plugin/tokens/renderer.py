"""How a conversation becomes token ids: the `Renderer` protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from swe_plugin.tokens.tool_calls import ParsedCalls
from swe_plugin.types import Message

__all__ = ["Piece", "ReadsCalls", "Renderer"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of ids that nobody sampled.

    Attributes:
        ids: token ids.
        kind: ``observation`` (what a message says) or ``glue`` (headers, separators, turn ends).
    """

    ids: Sequence[int]
    kind: str = "observation"


@runtime_checkable
class Renderer(Protocol):
    """Renders the start of a conversation and what is added to it, never the past a second time."""

    @property
    def stop_ids(self) -> frozenset[int]:
        """Ids that end an assistant turn when sampled; an answer that ends on no such id was cut."""
        ...

    def initial(self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] = ()) -> list[int]:
        """Ids of the first prompt, generation prompt included."""
        ...

    def extension(
        self, messages: Sequence[Message], *, sampled: Sequence[int], tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[Piece]:
        """Ids between a sampled assistant turn and the next one: what the template puts after the turn's
        end, the new messages, and the generation prompt.

        Args:
            messages: only the new user or tool messages.
            sampled: ids of the assistant turn just sampled. If they do not end as the template ends a turn
                (cut, or empty), the ids that close it come first.
            tools: the same as in the first prompt.
        """
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Text of a sampled turn without its stop id. Bytes that are no UTF-8 become U+FFFD."""
        ...


@runtime_checkable
class ReadsCalls(Protocol):
    """A renderer that knows how its model writes tool calls; for others they are JSON in ``<tool_call>`` tags."""

    def read_calls(self, text: str, *, tools: Sequence[Mapping[str, Any]], id_prefix: str) -> ParsedCalls:
        """Calls in the text of a complete answer.

        Args:
            text: as decoded.
            tools: that were offered.
            id_prefix: call ids are ``<prefix><nn>`` where the model gives none.
        """
        ...
