"""`ChatRequest`: what a client asks for, read strictly: nothing that would change an answer is ignored silently."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swe_plugin.gateway.errors import ApiError
from swe_plugin.types import Message, ToolCall

__all__ = ["ChatRequest", "read_request"]

_SAMPLING = frozenset({
    "temperature", "top_p", "top_k", "min_p", "seed", "frequency_penalty", "presence_penalty", "max_tokens",
    "max_completion_tokens", "reasoning_effort", "verbosity",
})  # fmt: skip
"""How answers are drawn is the run's to say: accepted, not followed, noted in the record."""
_NEUTRAL = frozenset({
    "messages", "model", "tools", "stream", "stream_options", "parallel_tool_calls", "user", "metadata", "store",
    "service_tier", "safety_identifier", "prompt_cache_key",
})  # fmt: skip
_ONLY: Mapping[str, Sequence[Any]] = {
    "n": (1,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "tool_choice": ("auto",),
    "response_format": ({"type": "text"},),
    "logit_bias": ({},),
    "stop": ([],),
    "modalities": (["text"],),
}
"""Parameters of which only these values can be served; null always can."""
_SURROGATES = re.compile("[\ud800-\udfff]")
"""JSON can write half of one, which is no text and no tokenizer takes."""
_MAX_TOOLS_CHARS = 1 << 18
"""They are rendered where all rollouts of a worker wait."""
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request for a completion.

    Attributes:
        messages: the whole conversation.
        tools: in OpenAI's form, as sent.
        stream: answer as server-sent events.
        usage_in_stream: with a last event that has the usage.
        ignored: parameters of sampling that will not be followed.
    """

    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]] = ()
    stream: bool = False
    usage_in_stream: bool = False
    ignored: Sequence[str] = ()


def read_request(body: bytes, model: str) -> ChatRequest:
    """Make sense of a request's body.

    Args:
        body: JSON.
        model: the only name that may be asked for.

    Raises:
        ApiError: it is malformed, or asks for what is not offered.
    """
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _invalid(f"the body is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise _invalid("the body is not a JSON object")
    _check_parameters(data)
    if data.get("model") != model:
        message = f"there is no model {data.get('model')!r} here, only {model!r}"
        raise ApiError(404, message, "model_not_found", param="model")
    options = data.get("stream_options") or {}
    return ChatRequest(
        messages=_messages(data.get("messages")),
        tools=_tools(data.get("tools") or []),
        stream=bool(data.get("stream")),
        usage_in_stream=isinstance(options, dict) and bool(options.get("include_usage")),
        ignored=sorted(name for name in _SAMPLING & data.keys() if data[name] is not None),
    )


def _check_parameters(data: Mapping[str, Any]) -> None:
    for name, value in data.items():
        if name in _ONLY:
            if value is not None and value not in _ONLY[name]:
                raise _unsupported(name, f"only {json.dumps(_ONLY[name][0])}, got {json.dumps(value)[:80]}")
        elif name not in _NEUTRAL and name not in _SAMPLING:
            raise _unsupported(name, "it is not known here")


def _messages(raw: Any) -> list[Message]:
    if not isinstance(raw, list) or not raw:
        raise _invalid("messages: a list of at least one message is needed", "messages")
    messages = [_message(item, f"messages[{i}]") for i, item in enumerate(raw)]
    if messages[-1].role == "assistant":
        raise _invalid("the conversation ends with the assistant's message: there is nothing to answer", "messages")
    asked: Message | None = None
    for i, message in enumerate(messages):
        asked = asked if message.role == "tool" else message
        if message.role == "tool" and not (asked and asked.tool_calls):
            raise _invalid(
                f"messages[{i}]: a tool's result needs an answer with tool_calls before it", f"messages[{i}]"
            )
    return messages


def _message(raw: Any, where: str) -> Message:
    role = _ROLES.get(str(raw.get("role"))) if isinstance(raw, dict) else None
    if role is None:
        raise _invalid(f"{where}: a role is needed, one of {', '.join(_ROLES)}", where)
    calls = raw.get("tool_calls") or []
    if not isinstance(calls, list):
        raise _invalid(f"{where}.tool_calls is not a list", where)
    return Message(
        role,
        _text(raw.get("content"), f"{where}.content"),
        tuple(_call(call, f"{where}.tool_calls[{i}]") for i, call in enumerate(calls)),
        str(raw.get("tool_call_id") or ""),
    )


def _text(content: Any, where: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise _invalid(f"{where}: text is needed, or a list of parts of text", where)
    for part in content:
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise _unsupported(where, "of parts of a message only text can be read")
    return "".join(part["text"] for part in content)


def _call(raw: Any, where: str) -> ToolCall:
    try:
        function = raw["function"]
        arguments = json.loads(function.get("arguments") or "{}")
        if not isinstance(arguments, dict):
            raise TypeError("arguments are not a JSON object")
        return ToolCall(str(function["name"]), arguments, str(raw.get("id") or ""))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise _invalid(f"{where}: not a tool call: {error}", where) from None


def _tools(raw: Any) -> list[Mapping[str, Any]]:
    if not isinstance(raw, list):
        raise _invalid("tools is not a list", "tools")
    for i, tool in enumerate(raw):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise _invalid(f"tools[{i}]: not a tool of type function with a name", f"tools[{i}]")
    text = json.dumps(raw, ensure_ascii=False)
    if len(text) > _MAX_TOOLS_CHARS:
        raise _invalid(f"tools: {len(text)} characters, at most {_MAX_TOOLS_CHARS} are taken", "tools")
    tools: list[Mapping[str, Any]] = json.loads(_SURROGATES.sub("\ufffd", text))
    return tools


def _invalid(message: str, param: str = "") -> ApiError:
    return ApiError(400, message, "invalid_request", param=param)


def _unsupported(param: str, why: str) -> ApiError:
    return ApiError(400, f"{param}: {why}", "unsupported_parameter", param=param)
