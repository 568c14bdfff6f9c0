"""SWE-agent's ``.traj``: ``history`` is what the model saw, ``trajectory`` what was done, ``info`` what came of it."""

from __future__ import annotations

from typing import Any

from swe_plugin.trajectories.formats.conversation import Conversation, read_message, write_message

__all__ = ["is_swe_agent", "read_swe_agent", "write_swe_agent"]


def is_swe_agent(data: Any) -> bool:
    """It has its two lists."""
    return isinstance(data, dict) and isinstance(data.get("trajectory"), list) and isinstance(data.get("history"), list)


def read_swe_agent(data: Any, name: str) -> Conversation:
    """See `detect.read_conversations`. Demonstrations are context and not trained."""
    info = data.get("info") or {}
    history = data["history"]
    return Conversation(
        name=name,
        messages=[read_message(raw) for raw in history],
        untrained=frozenset(i for i, raw in enumerate(history) if raw.get("is_demo")),
        patch=str(info.get("submission") or ""),
        stop=str(info.get("exit_status") or ""),
    )


def write_swe_agent(conversation: Conversation) -> dict[str, Any]:
    """The same as SWE-agent would write it, as far as it is known."""
    steps: list[dict[str, Any]] = []
    history: list[dict[str, Any]] = []
    for index, message in enumerate(conversation.messages):
        kind = "action" if message.role == "assistant" else "observation" if steps else message.role
        raw = {**write_message(message), "agent": "main", "message_type": kind}
        if message.tool_call_id:
            raw["tool_call_ids"] = [message.tool_call_id]
        if index in conversation.untrained:
            raw["is_demo"] = True
        history.append(raw)
        if message.role == "assistant":
            scripts = conversation.actions[len(steps)] if len(steps) < len(conversation.actions) else ()
            step = {"action": "\n".join(scripts), "response": message.content, "thought": message.content}
            steps.append({**step, "observation": "", "state": {}})
        elif steps:
            steps[-1]["observation"] += message.content
    info = {"exit_status": conversation.stop, "submission": conversation.patch, "model_stats": {}}
    return {"environment": "swe_plugin", "trajectory": steps, "history": history, "info": info}
