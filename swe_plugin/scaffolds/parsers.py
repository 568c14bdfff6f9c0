"""How an action is read from an answer: one fenced bash block, or tool calls.

Nothing here guesses: an answer is one of the documented forms or a format error whose text tells the model
what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swe_plugin.tokens.thoughts import said
from swe_plugin.types import Message, ToolCall

__all__ = [
    "SUBMIT",
    "TOOLS",
    "Action",
    "ActionFormatError",
    "parse_fenced",
    "parse_tool_calls",
    "write_action",
]

SUBMIT = "submit"

TOOLS: tuple[Mapping[str, Any], ...] = (
    {
        "type": "function",
        "function": {
            "name": "bash",
            "description": "Run a bash script in the repository. The working directory and variables are kept.",
            "parameters": {
                "type": "object",
                "properties": {"command": {"type": "string", "description": "The script to run."}},
                "required": ["command"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": SUBMIT,
            "description": "Hand in the work as it is now and end.",
            "parameters": {"type": "object", "properties": {}},
        },
    },
)
"""JSON schemas of the tools, in OpenAI's form."""

_FENCE = re.compile(r" {0,3}(`{3,})[ \t]*([^`\n]*?)[ \t]*\r?")


class ActionFormatError(ValueError):
    """No action can be read; the message goes to the model as a correction."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do.

    Attributes:
        script: bash to run; empty if there is nothing to run.
        submit: hand in.
        problem: why a tool call cannot be run (the model is told), or empty.
        call_id: of the tool call that asked for it.
    """

    script: str = ""
    submit: bool = False
    problem: str = ""
    call_id: str = ""


def parse_fenced(text: str) -> Action:
    """The one fenced bash block of an answer; text and blocks of other languages around it are fine.

    Fences follow CommonMark 4.5: a block ends at a line of at least as many backticks as opened it, so a script
    that writes Markdown is fenced with four. What stands in a thought is no action.

    Raises:
        ActionFormatError: no block, several, an empty or unclosed one, or one that no shell could run.
    """
    blocks: list[str] = []
    opened: tuple[int, str] | None = None
    body: list[str] = []
    for line in said(text).split("\n"):
        fence = _FENCE.fullmatch(line)
        if opened is None:
            if fence:
                opened, body = (len(fence[1]), fence[2]), []
        elif fence and len(fence[1]) >= opened[0] and not fence[2]:
            if opened[1] == "bash":
                blocks.append("\n".join(body))
            opened = None
        else:
            body.append(line)
    if opened is not None and opened[1] == "bash":
        raise ActionFormatError("the bash block is not closed")
    if len(blocks) != 1:
        raise ActionFormatError(f"expected exactly one bash block, found {len(blocks)}")
    script = blocks[0]
    if not script.strip():
        raise ActionFormatError("the bash block is empty")
    if problem := _unsafe(script):
        raise ActionFormatError(f"the bash block {problem}")
    return Action(submit=True) if script.strip() == SUBMIT else Action(script)


def parse_tool_calls(calls: Sequence[ToolCall]) -> list[Action]:
    """One action per tool call, in order. A call that cannot be run becomes an action with a `problem`.

    Raises:
        ActionFormatError: there is no call at all.
    """
    if not calls:
        raise ActionFormatError("expected a call of the tool bash or submit, found none")
    return [_tool_action(call) for call in calls]


def write_action(script: str, form: str, *, call_id: str = "call_0") -> Message:
    """The answer of which `script` is read back: the inverse of the parsers.

    Args:
        script: bash, or ``submit``.
        form: ``fenced`` or ``tools`` (``swe.scaffold.action``).
        call_id: of the tool call.
    """
    submits = script.strip() == SUBMIT
    if form == "tools":
        call = ToolCall(SUBMIT, {}, call_id) if submits else ToolCall("bash", {"command": script}, call_id)
        return Message("assistant", "", (call,))
    longest = max(map(len, re.findall(r"`+", script)), default=0)
    fence = "`" * max(3, longest + 1)
    return Message("assistant", f"{fence}bash\n{script}\n{fence}")


def _tool_action(call: ToolCall) -> Action:
    if call.name == SUBMIT:
        return Action(submit=True, call_id=call.call_id)
    if call.name != "bash":
        return Action(problem=f"unknown tool {call.name!r}; the tools are bash and submit", call_id=call.call_id)
    command = call.arguments.get("command") if isinstance(call.arguments, Mapping) else None
    if not isinstance(command, str) or not command.strip():
        return Action(problem="the tool bash needs one argument, command: a non-empty string", call_id=call.call_id)
    if problem := _unsafe(command):
        return Action(problem=f"the argument command {problem}", call_id=call.call_id)
    return Action(command, call_id=call.call_id)


def _unsafe(script: str) -> str:
    if "\0" in script:
        return "contains a NUL character"
    if not script.isascii() and any("\ud800" <= char <= "\udfff" for char in script):
        return "contains a lone surrogate, which is not text"
    return ""
