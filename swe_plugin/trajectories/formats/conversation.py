"""`Conversation`: what every format is read into."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from swe_plugin.types import Message, Segment, ToolCall

__all__ = ["Conversation", "read_message", "text_of", "write_message"]

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


@dataclass(slots=True)
class Conversation:
    """One trajectory.

    Attributes:
        name: of the task or file, for the reader.
        messages: oldest first.
        tools: schemas that were offered, if they are known.
        untrained: indices of answers that are only context (demonstrations).
        segments: token streams, where they were recorded.
        reward: if it is known.
        patch: what was handed in.
        stop: why it ended, in the words of its source.
        actions: scripts of each answer, where they were recorded.
    """

    name: str
    messages: list[Message]
    tools: Sequence[Mapping[str, Any]] = ()
    untrained: frozenset[int] = frozenset()
    segments: Sequence[Segment] = ()
    reward: float | None = None
    patch: str = ""
    stop: str = ""
    actions: Sequence[Sequence[str]] = field(default_factory=list)


def read_message(raw: Mapping[str, Any]) -> Message:
    """A message in OpenAI's form.

    Raises:
        ValueError: unknown role, or a tool call that cannot be read.
    """
    role = _ROLES.get(str(raw.get("role")))
    if role is None:
        raise ValueError(f"unknown role {raw.get('role')!r}")
    content = text_of(raw.get("content"))
    if role == "assistant" and (thought := raw.get("reasoning_content")):
        content = f"<think>\n{text_of(thought)}\n</think>\n\n{content}"
    calls = tuple(_read_call(call) for call in raw.get("tool_calls") or ())
    call_id = raw.get("tool_call_id") or next(iter(raw.get("tool_call_ids") or ()), "")
    return Message(role, content, calls, str(call_id))


def write_message(message: Message) -> dict[str, Any]:
    """Inverse of `read_message`; arguments as JSON text."""
    raw: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        raw["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments))},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        raw["tool_call_id"] = message.tool_call_id
    return raw


def text_of(content: Any) -> str:
    """Text of a content that is a string, a list of parts, or nothing.

    Raises:
        ValueError: it has anything but text.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(p, dict) and isinstance(p.get("text"), str) for p in content):
        return "".join(part["text"] for part in content)
    raise ValueError("content that is not text (images are not supported)")


def _read_call(raw: Mapping[str, Any]) -> ToolCall:
    function = raw.get("function") or {}
    arguments = function.get("arguments") or {}
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError as error:
            raise ValueError(f"arguments of a tool call are not JSON ({error})") from error
    if not function.get("name") or not isinstance(arguments, dict):
        raise ValueError("a tool call needs a name and an object of arguments")
    return ToolCall(function["name"], arguments, str(raw.get("id") or ""))
