"""Calls as tags, values as text: Qwen3-Coder, Qwen3.5 (``<function=...>``), MiniMax-M2 (``<invoke name=...>``), GLM."""

from __future__ import annotations

import re
from collections.abc import Iterator

from swe_plugin.tokens.tool_calls.form import Found, WrittenCall

__all__ = ["ARGUMENT_TAGS", "FUNCTION_TAGS", "INVOKE_TAGS", "Tagged"]


class Tagged:
    """Blocks of functions of parameters.

    Whatever is neither makes the call unreadable, so that a value in which a closing tag stands is never cut.

    Args:
        block: name of the tag around calls.
        function: pattern of one call: name, body.
        parameter: pattern of one parameter: name, value.
    """

    def __init__(self, block: str, function: str, parameter: str) -> None:
        self._open = f"<{block}>"
        self._block = re.compile(f"<{block}>(.*?)</{block}>", re.DOTALL)
        self._function = re.compile(function, re.DOTALL)
        self._parameter = re.compile(parameter, re.DOTALL)

    def find(self, text: str) -> Found:
        """See `CallForm.find`."""
        found = Found(self._block.sub("", text))
        number = 0
        for block in self._block.finditer(text):
            if self._function.sub("", block[1]).strip() or not self._function.search(block[1]):
                found.errors.append(f"tool call {number + 1}: expected a function with its parameters and nothing else")
            for function in self._function.finditer(block[1]):
                number += 1
                found.add(number, self._read, function[1], function[2])
        if self._open in found.rest:
            found.errors.append("a tool call is not closed")
        return found

    def _read(self, name: str, body: str) -> WrittenCall:
        if self._parameter.sub("", body).strip():
            raise ValueError("expected parameters and nothing else")
        arguments: dict[str, str] = {}
        for key, value in self._parameters(body):
            if key in arguments:
                raise ValueError(f"parameter {key} is given twice")
            arguments[key] = value
        return WrittenCall(name, arguments, typed=False)

    def _parameters(self, body: str) -> Iterator[tuple[str, str]]:
        return ((match[1], match[2]) for match in self._parameter.finditer(body))


FUNCTION_TAGS = Tagged(
    "tool_call",
    r"<function=([^>\s]+)>(.*?)</function>",
    r"<parameter=([^>\s]+)>\n?(.*?)\n?</parameter>",
)
INVOKE_TAGS = Tagged(
    "minimax:tool_call",
    r"<invoke name=\"([^\"]+)\">(.*?)</invoke>",
    r"<parameter name=\"([^\"]+)\">(.*?)</parameter>",
)
ARGUMENT_TAGS = Tagged(
    "tool_call",
    r"\A\s*([^\s<>{}]+)\s*(.*)\Z",
    r"<arg_key>([^<]+)</arg_key>\s*<arg_value>(.*?)</arg_value>",
)
