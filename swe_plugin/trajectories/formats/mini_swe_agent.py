"""mini-swe-agent: ``{"messages": [...], "info": {...}, "trajectory_format": "mini-swe-agent-1.1"}``."""

from __future__ import annotations

from typing import Any

from swe_plugin.trajectories.formats.conversation import Conversation, read_message

__all__ = ["is_mini_swe_agent", "read_mini_swe_agent"]

_EXIT = "exit"
"""Role of the note in which it keeps why it ended; the model never saw it."""


def is_mini_swe_agent(data: Any) -> bool:
    """Its format says so itself."""
    return isinstance(data, dict) and str(data.get("trajectory_format", "")).startswith("mini-swe-agent")


def read_mini_swe_agent(data: Any, name: str) -> Conversation:
    """See `detect.read_conversations`."""
    info = data.get("info") or {}
    return Conversation(
        name=str(data.get("instance_id") or info.get("instance_id") or name),
        messages=[read_message(raw) for raw in data["messages"] if raw.get("role") != _EXIT],
        patch=str(info.get("submission") or ""),
        stop=str(info.get("exit_status") or ""),
    )
