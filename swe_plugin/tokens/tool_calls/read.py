"""`parse_tool_calls`: the calls of one answer, or why there are none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from swe_plugin.tokens.tool_calls.bare_json import BareJson
from swe_plugin.tokens.tool_calls.blocks import (
    ARGUMENT_TAGS,
    DEEPSEEK_MARKS,
    FUNCTION_TAGS,
    INVOKE_TAGS,
    JSON_BLOCKS,
    KIMI_MARKS,
)
from swe_plugin.tokens.tool_calls.bracketed import Bracketed
from swe_plugin.tokens.tool_calls.channels import Channels
from swe_plugin.tokens.tool_calls.form import CallForm, WrittenCall, read_json
from swe_plugin.types import ToolCall

__all__ = ["FORMS", "ParsedCalls", "find_form", "parse_tool_calls"]

FORMS: Mapping[str, CallForm] = {
    "json_blocks": JSON_BLOCKS,
    "function_tags": FUNCTION_TAGS,
    "invoke_tags": INVOKE_TAGS,
    "argument_tags": ARGUMENT_TAGS,
    "kimi_marks": KIMI_MARKS,
    "deepseek_marks": DEEPSEEK_MARKS,
    "channels": Channels(),
    "bracketed": Bracketed(),
    "bare_json": BareJson(),
}
"""Every form that is known, by name."""

_THOUGHT, _THOUGHT_END = "<think>", "</think>"
_CALL_ID = re.compile(r"[a-zA-Z0-9]{9}|functions\.[\w.-]+:\d+")
"""What the templates accept that are particular about it: Mistral's, and Kimi's, whose results repeat it."""


@dataclass(frozen=True, slots=True)
class ParsedCalls:
    """Tool calls of one answer.

    Attributes:
        content: the text beside the calls, thoughts included; the whole text if any call is malformed.
        calls: in the order written; empty if any call is malformed, so that half a turn never runs.
        errors: one sentence per malformed call, fit for an observation.
    """

    content: str
    calls: list[ToolCall] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def parse_tool_calls(
    text: str,
    *,
    form: str = "json_blocks",
    tools: Sequence[Mapping[str, Any]] = (),
    id_prefix: str = "call000",
) -> ParsedCalls:
    """Read the calls of an answer. What stands in a thought is no call.

    Args:
        text: one answer of the model, complete: never one that was cut.
        form: name of a form, see `FORMS`.
        tools: schemas, which say what is no string where a form writes all values as text.
        id_prefix: call ids are ``<prefix><nn>`` where the model gives none that a template would take.
    """
    thought, end, said = text.rpartition(_THOUGHT_END)
    if said.lstrip().startswith(_THOUGHT):  # and does not end
        return ParsedCalls(text)
    found = FORMS[form].find(said)
    calls: list[ToolCall] = []
    errors = list(found.errors)
    ids = [f"{id_prefix}{n:02}" for n in range(len(found.calls))]
    own = [call.call_id for call in found.calls]
    if len(set(own)) == len(own) and all(map(_CALL_ID.fullmatch, own)):
        ids = own
    for number, (call, call_id) in enumerate(zip(found.calls, ids, strict=True), 1):
        try:
            calls.append(ToolCall(call.name, _typed(call, tools), call_id))
        except ValueError as error:
            errors.append(f"tool call {number}: {error}")
    if errors or not calls:
        return ParsedCalls(text, [], errors)
    return ParsedCalls(f"{thought}{end}{found.rest}".strip(), calls)


def find_form(text: str, name: str, arguments: Mapping[str, Any]) -> str | None:
    """Name of the form in which `text` is one call with these arguments, all of them strings."""
    for form in FORMS:
        parsed = parse_tool_calls(text, form=form)
        if [(call.name, dict(call.arguments)) for call in parsed.calls] == [(name, dict(arguments))]:
            return form
    return None


def _typed(call: WrittenCall, tools: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Arguments with the types that the tool's schema gives them."""
    if call.typed:
        return call.arguments
    schemas = {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in tools}
    properties = schemas.get(call.name, {}).get("properties", {})
    return {key: _value(key, value, properties.get(key, {}).get("type")) for key, value in call.arguments.items()}


def _value(key: str, value: str, kind: Any) -> Any:
    if kind in (None, "string"):
        return value
    try:
        return read_json(value)
    except ValueError as error:
        raise ValueError(f"the argument {key} is no {kind}: {error}") from error
