"""`check_template`: is what a template adds independent of the past, and the past of what is added?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from swe_plugin.errors import ConfigError
from swe_plugin.tokens.renderers.safe_encoder import SafeEncoder
from swe_plugin.tokens.renderers.template import (
    ANSWER,
    QUESTION,
    TOOL_NAME,
    ChatMessage,
    Template,
    answer,
    call_id,
    result,
    shared_length,
    user,
)
from swe_plugin.tokens.tool_calls import FORMS, find_form

__all__ = ["STAND_IN_TOOL", "CheckReport", "check_template"]

_THOUGHT = "zqthoughtqz"
_OTHER_TOOL = "zqcalledqz"
STAND_IN_TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": TOOL_NAME,
        "description": "none",
        "parameters": {
            "type": "object",
            "properties": {"q": {"type": "string", "description": "none"}},
            "required": [],
        },
    },
}


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What the check of a template found; a template that fails it never gets a report.

    Attributes:
        exact: rendering a whole conversation gives the very stream that is built turn by turn.
        notes: where it does not, and what the stream holds instead; one sentence each.
        call_form: name of the form in which it writes tool calls (`tool_calls.FORMS`); empty without tools.
    """

    exact: bool = True
    notes: Sequence[str] = field(default_factory=tuple)
    call_form: str = ""


def check_template(template: Template, encoder: SafeEncoder, encode: Callable[[str], Sequence[int]]) -> CheckReport:
    """Try a template on stand-in conversations, with tool calls and results if it has tools.

    Args:
        template: to be tried.
        encoder: what the renderer encodes with.
        encode: the tokenizer's own encoding of a rendered conversation, to compare with.

    Raises:
        ConfigError: the template cannot be used append-only; says why.
    """
    additions = [[user("zqnextqz")]]
    if template.tools:
        additions += [[result("zqoneqz")], [result("zqoneqz"), result("zqtwoqz", 1)]]
    notes: list[str] = []
    for history in _histories(template):
        for addition in additions:
            notes += _try(template, encoder, encode, history, addition)
    notes += _thoughts(template)
    unique = tuple(dict.fromkeys(notes))
    return CheckReport(exact=not unique, notes=unique, call_form=_call_form(template) if template.tools else "")


def _call_form(template: Template) -> str:
    """The form in which the template writes a call of a stand-in's."""
    called = answer(ANSWER, [call_id(0)])
    written = template.written({**called, "content": ""}, template.tools)
    if form := find_form(written, TOOL_NAME, {"q": ANSWER}):
        return form
    raise template.refusal(f"it writes a tool call as {written!r}, which no form of {', '.join(FORMS)} reads")


def _histories(template: Template) -> list[list[ChatMessage]]:
    """Conversations that wait for an answer: short, without system prompt, and with turns and calls before."""
    start = template.stand_in[:-1]
    histories = [start, [*start, answer("first"), user(f"{QUESTION} two"), answer("second"), user(QUESTION)]]
    if template.tools:
        histories.append([*start, answer("", [call_id(0)]), result("done"), answer("ok"), user(QUESTION)])
    try:
        template.render([user(QUESTION)], template.tools)
    except ConfigError:
        return histories  # needs a system prompt
    return [*histories, [user(QUESTION)]]


def _try(
    template: Template,
    encoder: SafeEncoder,
    encode: Callable[[str], Sequence[int]],
    history: list[ChatMessage],
    addition: list[ChatMessage],
) -> list[str]:
    """One history, one answer, one addition."""
    is_result = addition[0]["role"] == "tool"
    tools = template.tools
    prompt = template.render(history, tools)
    names = [_OTHER_TOOL] * len(addition)  # what it adds may name the tool that the answer called, no earlier one
    whole = template.render_after(history, addition, tools, names)
    tail = template.tail(addition, tools, names)
    if any(message["content"] not in tail for message in addition):
        raise template.refusal("it writes what follows an answer before the end of that answer, or not at all")
    if not whole.endswith(tail):
        raise template.refusal("what it adds after an answer depends on earlier turns")
    own, added = list(encode(whole)), encoder.encode(tail).ids
    if encoder.encode(whole).ids != own or own[-len(added) :] != added:
        raise template.refusal("its additions are encoded differently alone and inside a conversation")
    before = whole[: whole.find(ANSWER)]
    if before == prompt or (is_result and before.startswith(prompt)):
        return []
    shared = shared_length(prompt, before)
    if shared < prompt.rfind(QUESTION) + len(QUESTION):
        if TOOL_NAME in tail and not is_result:
            return ["the template shows tools before the last message of a user only; the stream keeps earlier ones"]
        raise template.refusal("it changes earlier turns when a message is added")
    header, later = prompt[shared:], before[shared:]
    return [f"the template would precede an earlier answer by {later!r}; the stream keeps {header!r} as sampled after"]


def _thoughts(template: Template) -> list[str]:
    thought = f"<think>\n{_THOUGHT}\n</think>\n\n{ANSWER}"
    tools = template.tools
    whole = template.render([*template.stand_in[:-1], answer(thought), user("next")], tools)
    notes = [] if _THOUGHT in whole else ["the template drops thoughts of earlier answers; the stream keeps them"]
    if template.tools:
        called = {**answer(ANSWER, [call_id(0)]), "content": _THOUGHT}
        whole = template.render([*template.stand_in[:-1], called, result("done"), answer("ok"), user("next")], tools)
        if _THOUGHT not in whole:
            notes.append("the template drops what an earlier answer said beside its calls; the stream keeps it")
    return notes
