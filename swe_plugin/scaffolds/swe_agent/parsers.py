"""SWE-agent's parse functions: an answer's text, or its tool calls, as one `Call`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swe_plugin.scaffolds.parsers import ActionFormatError
from swe_plugin.types import ToolCall

__all__ = ["PARSERS", "Call", "parse_call"]

_BLOCK = re.compile(r"^```[^\n`]*\n(.*?)^```\s*$", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"<command>(.*?)</command>", re.DOTALL)
_FUNCTION = re.compile(r"<function=([^>\s]+)>(.*?)</function>", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\s]+)>(.*?)</parameter>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Call:
    """One tool with its arguments; `call_id` if the model gave one."""

    name: str
    arguments: Mapping[str, Any]
    call_id: str = ""


def parse_call(calls: Sequence[ToolCall]) -> Call:
    """``function_calling``: the answer's only tool call.

    Raises:
        ActionFormatError: there is none, or more than one.
    """
    if len(calls) != 1:
        raise ActionFormatError(f"expected exactly one tool call, found {len(calls)}")
    return Call(calls[0].name, calls[0].arguments, calls[0].call_id)


def _thought_action(text: str, names: Sequence[str]) -> Call:
    """The last fenced block is a command line."""
    return _line(_last(_BLOCK, text, "a fenced block with the command"), names)


def _xml_thought_action(text: str, names: Sequence[str]) -> Call:
    return _line(_last(_COMMAND, text, "the command between <command> and </command>"), names)


def _action_only(text: str, names: Sequence[str]) -> Call:
    return _line(text, names)


def _xml_function_calling(text: str, names: Sequence[str]) -> Call:
    """The last ``<function=name>`` with its ``<parameter=name>`` elements."""
    found = _FUNCTION.findall(text)
    if not found:
        raise ActionFormatError("expected one <function=name> ... </function>, found none")
    name, body = found[-1]
    values = {key: value.removeprefix("\n").removesuffix("\n") for key, value in _PARAMETER.findall(body)}
    return Call(name, values)


PARSERS: Mapping[str, Callable[[str, Sequence[str]], Call]] = {
    "thought_action": _thought_action,
    "xml_thought_action": _xml_thought_action,
    "xml_function_calling": _xml_function_calling,
    "action_only": _action_only,
}
"""Parse function -> reads an answer's text, given the tools' names; raises `ActionFormatError`."""


def _last(pattern: re.Pattern[str], text: str, what: str) -> str:
    found = pattern.findall(text)
    if not found:
        raise ActionFormatError(f"expected {what}, found none")
    return str(found[-1])


def _line(text: str, names: Sequence[str]) -> Call:
    """A command line: of one of the tools by its first word, else of bash.

    The words of ``str_replace_editor`` are ``<command> <path> --name value...``.
    """
    script = text.strip("\n")
    word = script.split(maxsplit=1)[0] if script.strip() else ""
    if not word:
        raise ActionFormatError("the command is empty")
    if word not in names or word == "bash":
        return Call("bash", {"command": script})
    try:
        words = shlex.split(script)[1:]
    except ValueError as error:
        raise ActionFormatError(f"the arguments of {word} cannot be read: {error}") from None
    arguments: dict[str, Any] = dict(zip(("command", "path"), words, strict=False))
    rest = iter(words[2:])
    for option in rest:
        if not option.startswith("--"):
            raise ActionFormatError(f"{word}: expected --name value, found {option!r}")
        value = next(rest, "")
        arguments[option.removeprefix("--")] = [value, next(rest, "")] if option == "--view_range" else value
    return Call(word, arguments)
