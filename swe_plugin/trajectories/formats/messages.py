"""OpenAI-style logs: a list of messages, or an object with ``messages`` (``tools``, ``reward``, ``instance_id``)."""

from __future__ import annotations

from typing import Any

from swe_plugin.trajectories.formats.conversation import Conversation, read_message

__all__ = ["is_messages", "read_messages"]


def is_messages(data: Any) -> bool:
    """Something with messages in it."""
    messages = data.get("messages") if isinstance(data, dict) else data
    return isinstance(messages, list) and bool(messages) and all(isinstance(m, dict) and "role" in m for m in messages)


def read_messages(data: Any, name: str) -> Conversation:
    """See `detect.read_conversations`."""
    head = data if isinstance(data, dict) else {}
    messages = head.get("messages", data)
    reward = head.get("reward")
    return Conversation(
        name=str(head.get("instance_id") or name),
        messages=[read_message(raw) for raw in messages],
        tools=head.get("tools") or (),
        reward=None if reward is None else float(reward),
    )
