"""Calls in blocks, between an opening and a closing mark: the forms of most families."""

from __future__ import annotations

import re
from collections.abc import Callable

from swe_plugin.tokens.tool_calls.form import Found, WrittenCall, named_call, read_json

__all__ = ["ARGUMENT_TAGS", "DEEPSEEK_MARKS", "FUNCTION_TAGS", "INVOKE_TAGS", "JSON_BLOCKS", "KIMI_MARKS", "Blocks"]


class Blocks:
    """Blocks of calls.

    Whatever else stands in a block makes it unreadable, so that a value in which a closing mark stands is never cut.

    Args:
        opens, closes: what stands around calls.
        call: pattern of one call, or of the whole block if it holds one.
        read: makes a call of the pattern's groups; a ValueError says why not.
    """

    def __init__(self, opens: str, closes: str, call: str, read: Callable[..., WrittenCall]) -> None:
        self._opens, self._read = opens, read
        self._block = re.compile(f"{re.escape(opens)}(.*?){re.escape(closes)}", re.DOTALL)
        self._call = re.compile(call, re.DOTALL)

    def find(self, text: str) -> Found:
        """See `CallForm.find`."""
        found = Found(self._block.sub("", text))
        number = 0
        for block in self._block.finditer(text):
            if self._call.sub("", block[1]).strip() or not self._call.search(block[1]):
                found.errors.append(f"tool call {number + 1}: expected calls and nothing else")
            for call in self._call.finditer(block[1]):
                number += 1
                found.add(number, self._read, *call.groups())
        if self._opens in found.rest:
            found.errors.append("a tool call is not closed")
        return found


def _json(body: str) -> WrittenCall:
    return named_call(read_json(body))


def _tagged(pattern: str) -> Callable[[str, str], WrittenCall]:
    """Reads a name and parameters as tags, whose values are text."""
    parameter = re.compile(pattern, re.DOTALL)

    def read(name: str, body: str) -> WrittenCall:
        if parameter.sub("", body).strip():
            raise ValueError("expected parameters and nothing else")
        arguments: dict[str, str] = {}
        for match in parameter.finditer(body):
            if match[1] in arguments:
                raise ValueError(f"parameter {match[1]} is given twice")
            arguments[match[1]] = match[2]
        return WrittenCall(name, arguments, typed=False)

    return read


def _headed(pattern: str) -> Callable[[str, str], WrittenCall]:
    """Reads a header, which names the tool and is the call's id if it counts calls, and JSON."""
    wanted = re.compile(pattern)

    def read(header: str, arguments: str) -> WrittenCall:
        match = wanted.fullmatch(header.strip())
        if match is None:
            raise ValueError(f"{header!r} names no tool")
        return named_call({"name": match[1], "arguments": read_json(arguments), "id": header.strip()})

    return read


JSON_BLOCKS = Blocks("<tool_call>", "</tool_call>", r"\A(.*)\Z", _json)
FUNCTION_TAGS = Blocks(
    "<tool_call>",
    "</tool_call>",
    r"<function=([^>\s]+)>(.*?)</function>",
    _tagged(r"<parameter=([^>\s]+)>\n?(.*?)\n?</parameter>"),
)
INVOKE_TAGS = Blocks(
    "<minimax:tool_call>",
    "</minimax:tool_call>",
    r"<invoke name=\"([^\"]+)\">(.*?)</invoke>",
    _tagged(r"<parameter name=\"([^\"]+)\">(.*?)</parameter>"),
)
ARGUMENT_TAGS = Blocks(
    "<tool_call>",
    "</tool_call>",
    r"\A\s*([^\s<>{}]+)\s*(.*)\Z",
    _tagged(r"<arg_key>([^<]+)</arg_key>\s*<arg_value>(.*?)</arg_value>"),
)
KIMI_MARKS = Blocks(
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    r"<\|tool_call_begin\|>(.*?)<\|tool_call_argument_begin\|>(.*?)<\|tool_call_end\|>",
    _headed(r"functions\.([\w.-]+):\d+"),
)
DEEPSEEK_MARKS = Blocks(
    "<\uff5ctool\u2581calls\u2581begin\uff5c>",
    "<\uff5ctool\u2581calls\u2581end\uff5c>",
    "<\uff5ctool\u2581call\u2581begin\uff5c>(.*?)<\uff5ctool\u2581sep\uff5c>(.*?)<\uff5ctool\u2581call\u2581end\uff5c>",
    _headed(r"([\w.-]+)"),
)
