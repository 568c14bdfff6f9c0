"""ATIF (agent trajectory interchange format, 1.x): steps of system, user and agent, with observations and token ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from swe_plugin.tokens import Completion, Piece, TokenRecorder
from swe_plugin.trajectories.formats.conversation import Conversation, text_of
from swe_plugin.types import Message, Segment, ToolCall

__all__ = ["is_atif", "read_atif", "write_atif"]

_VERSION = "ATIF-v1.8"


def is_atif(data: Any) -> bool:
    """Its format says so itself."""
    return isinstance(data, dict) and str(data.get("schema_version", "")).startswith("ATIF-v1.")


def read_atif(data: Any, name: str) -> Conversation:
    """See `detect.read_conversations`. Token streams are rebuilt if every answer has its ids and log-probs.

    Raises:
        ValueError: a step that cannot be read.
    """
    messages = [message for step in data["steps"] for message in _messages(step)]
    extra = data.get("extra") or {}
    agent = data.get("agent") or {}
    reward = extra.get("reward")
    return Conversation(
        name=str(extra.get("instance_id") or name),
        messages=messages,
        tools=agent.get("tool_definitions") or (),
        segments=_segments([step.get("metrics") or {} for step in data["steps"] if step.get("source") == "agent"]),
        reward=None if reward is None else float(reward),
        patch=str(extra.get("patch") or ""),
        stop=str(extra.get("stop") or ""),
    )


def write_atif(conversation: Conversation) -> dict[str, Any]:
    """The same as ATIF; token ids and log-probs with each answer where they were recorded."""
    metrics = _metrics(conversation.segments)
    steps: list[dict[str, Any]] = []
    answers = 0
    for message in conversation.messages:
        if message.role == "assistant":
            steps.append(_agent_step(message, metrics.get(answers)))
            answers += 1
        elif answers:
            observation = steps[-1].setdefault("observation", {"results": []})
            result = {"source_call_id": message.tool_call_id} if message.tool_call_id else {}
            observation["results"].append({**result, "content": message.content})
        else:
            steps.append({"source": message.role, "message": message.content})
    extra = {"instance_id": conversation.name, "stop": conversation.stop, "patch": conversation.patch}
    agent: dict[str, Any] = {"name": "swe-plugin", "version": "1"}
    if conversation.tools:
        agent["tool_definitions"] = list(conversation.tools)
    return {
        "schema_version": _VERSION,
        "session_id": conversation.name,
        "agent": agent,
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
        "extra": extra if conversation.reward is None else {**extra, "reward": conversation.reward},
    }


def _messages(step: dict[str, Any]) -> Iterator[Message]:
    source, text = step.get("source"), text_of(step.get("message"))
    if source in ("system", "user"):
        yield Message(source, text)
        return
    if source != "agent":
        raise ValueError(f"step {step.get('step_id')}: unknown source {source!r}")
    if thought := step.get("reasoning_content"):
        text = f"<think>\n{thought}\n</think>\n\n{text}"
    calls = [ToolCall(c["function_name"], c["arguments"], c["tool_call_id"]) for c in step.get("tool_calls") or ()]
    yield Message("assistant", text, tuple(calls))
    for result in (step.get("observation") or {}).get("results") or ():
        call_id = result.get("source_call_id") or ""
        yield Message("tool" if call_id else "user", text_of(result.get("content")), tool_call_id=call_id)


def _agent_step(message: Message, metrics: dict[str, Any] | None) -> dict[str, Any]:
    step: dict[str, Any] = {"source": "agent", "message": message.content}
    if message.tool_calls:
        step["tool_calls"] = [
            {"tool_call_id": c.call_id, "function_name": c.name, "arguments": dict(c.arguments)}
            for c in message.tool_calls
        ]
    return {**step, "metrics": metrics} if metrics else step


def _metrics(segments: Sequence[Segment]) -> dict[int, dict[str, Any]]:
    """Per answer what ATIF keeps of its tokens."""
    return {
        span.turn: {
            "prompt_tokens": span.start,
            "completion_tokens": span.stop - span.start,
            "prompt_token_ids": segment.ids[: span.start].tolist(),
            "completion_token_ids": segment.ids[span.start : span.stop].tolist(),
            "logprobs": segment.log_probs[span.start : span.stop].tolist(),
        }
        for segment in segments
        for span in segment.spans
        if span.kind == "sampled"
    }


def _segments(metrics: Sequence[dict[str, Any]]) -> list[Segment]:
    keys = ("prompt_token_ids", "completion_token_ids", "logprobs")
    if not metrics or not all(all(step.get(key) for key in keys) for step in metrics):
        return []
    recorder = TokenRecorder()
    for step in metrics:
        prompt, completion, log_probs = (list(step[key]) for key in keys)
        known = recorder.ids.tolist() if recorder.segments else []
        if known and prompt[: len(known)] == known:
            recorder.extend([Piece(prompt[len(known) :])])
        else:
            recorder.open(prompt)
        recorder.sample(Completion(completion, log_probs))
    return recorder.segments
