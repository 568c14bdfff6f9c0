"""Reading the model's own tool calls out of its text (Hermes and Qwen JSON blocks)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from swe_plugin.types import ToolCall

__all__ = ["ParsedCalls", "parse_tool_calls"]

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_BLOCK = re.compile(re.escape(_OPEN) + r"(.*?)" + re.escape(_CLOSE), re.DOTALL)


@dataclass(frozen=True, slots=True)
class ParsedCalls:
    """Tool calls of one answer.

    Attributes:
        content: the text beside the calls; the whole text if any call is malformed.
        calls: in the order written; empty if any call is malformed, so that half a turn never runs.
        errors: one sentence per malformed call, fit for an observation.
    """

    content: str
    calls: list[ToolCall] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def parse_tool_calls(text: str, *, id_prefix: str = "call") -> ParsedCalls:
    """Read ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>`` blocks.

    Args:
        text: one answer of the model.
        id_prefix: call ids are ``<prefix>_<n>``; unique if the prefix is.
    """
    calls: list[ToolCall] = []
    errors: list[str] = []
    for index, match in enumerate(_BLOCK.finditer(text)):
        try:
            calls.append(_read_call(match[1], f"{id_prefix}_{index}"))
        except ValueError as error:
            errors.append(f"tool call {index + 1}: {error}")
    rest = _BLOCK.sub("", text)
    if _OPEN in rest:
        errors.append("a tool call is not closed")
    if errors:
        return ParsedCalls(text, [], errors)
    return ParsedCalls(rest.strip() if calls else text, calls)


def _read_call(body: str, call_id: str) -> ToolCall:
    raw = _read_json(body)
    if not isinstance(raw, dict) or not isinstance(name := raw.get("name"), str) or not name:
        raise ValueError('expected {"name": ..., "arguments": {...}}')
    arguments = raw.get("arguments", {})
    if isinstance(arguments, str):
        arguments = _read_json(arguments)
    if not isinstance(arguments, dict):
        raise ValueError("arguments must be a JSON object")  # noqa: TRY004 - the caller reports ValueErrors
    return ToolCall(name, arguments, call_id)


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error})") from error
