"""A `Reply` in OpenAI's words: one object, or a stream of chunks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from swe_plugin.types import Reply

__all__ = ["chunks", "completion"]


def completion(reply: Reply, model: str, number: int) -> dict[str, Any]:
    """The whole answer as one ``chat.completion``.

    Args:
        reply: the policy's.
        model: its name here.
        number: of the answer in its rollout, for its id.
    """
    message: dict[str, Any] = {"role": "assistant", "content": reply.message.content}
    if calls := _calls(reply):
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply)}
    return {**_head("chat.completion", model, number), "choices": [choice], "usage": _usage(reply)}


def chunks(reply: Reply, model: str, number: int, *, usage: bool) -> Iterator[str]:
    """The same as server-sent events: the policy answers as a whole, so the text is one of them."""
    head = _head("chat.completion.chunk", model, number)
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": reply.message.content}]
    deltas += [{"tool_calls": [{"index": i, **call}]} for i, call in enumerate(_calls(reply))]
    for delta in deltas:
        yield _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield _event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(reply)}]})
    if usage:
        yield _event({**head, "choices": [], "usage": _usage(reply)})
    yield "data: [DONE]\n\n"


def _head(kind: str, model: str, number: int) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": int(time.time()), "model": model}


def _calls(reply: Reply) -> list[dict[str, Any]]:
    return [
        {
            "id": call.call_id or f"call_{i}",
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments))},
        }
        for i, call in enumerate(reply.message.tool_calls)
    ]


def _finish(reply: Reply) -> str:
    return "length" if reply.truncated else "tool_calls" if reply.message.tool_calls else "stop"


def _usage(reply: Reply) -> dict[str, int]:
    return {
        "prompt_tokens": reply.n_prompt,
        "completion_tokens": reply.n_tokens,
        "total_tokens": reply.n_prompt + reply.n_tokens,
    }


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"
