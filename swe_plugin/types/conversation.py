"""What an agent and a model say to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Message", "Reply", "ToolCall"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One action the model asked for: tool `name` with `arguments`, and the provider's call id."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. `role` is system, user, assistant or tool."""

    role: str
    content: str
    tool_calls: Sequence[ToolCall] = ()
    tool_call_id: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a policy answered.

    Attributes:
        message: the assistant message, to be appended to the history as it is.
        truncated: cut by a length limit, whatever the server called it; its action must not be run.
        n_tokens: sampled tokens (0 for policies without tokens).
        n_prompt: tokens of the context that they were sampled in.
        problems: why tool calls in it could not be read, one sentence each; the message then has none of its calls.
    """

    message: Message
    truncated: bool = False
    n_tokens: int = 0
    problems: Sequence[str] = ()
    n_prompt: int = 0
