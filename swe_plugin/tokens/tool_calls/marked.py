"""Calls between control tokens, a header and JSON: Kimi-K2 and DeepSeek-V3.1."""

from __future__ import annotations

import re

from swe_plugin.tokens.tool_calls.form import Found, WrittenCall, named_call, read_json

__all__ = ["DEEPSEEK_MARKS", "KIMI_MARKS", "Marked"]


class Marked:
    """A section of calls, each a header that names the tool and a JSON object.

    Whatever else stands in a section makes it unreadable.

    Args:
        section: what opens and closes the section.
        call: what opens a call, divides its header from its arguments, and closes it.
        header: pattern of a header: the name, and the id if the model gives one.
    """

    def __init__(self, section: tuple[str, str], call: tuple[str, str, str], header: str) -> None:
        self._open = section[0]
        self._section = re.compile("(.*?)".join(map(re.escape, section)), re.DOTALL)
        self._call = re.compile("(.*?)".join(map(re.escape, call)), re.DOTALL)
        self._header = re.compile(header)

    def find(self, text: str) -> Found:
        """See `CallForm.find`."""
        found = Found(self._section.sub("", text))
        number = 0
        for section in self._section.finditer(text):
            if self._call.sub("", section[1]).strip() or not self._call.search(section[1]):
                found.errors.append(f"tool call {number + 1}: expected calls and nothing else")
            for call in self._call.finditer(section[1]):
                number += 1
                found.add(number, self._read, call[1], call[2])
        if self._open in found.rest:
            found.errors.append("a tool call is not closed")
        return found

    def _read(self, header: str, arguments: str) -> WrittenCall:
        match = self._header.fullmatch(header.strip())
        if match is None:
            raise ValueError(f"{header!r} names no tool")
        call_id = header.strip() if match.lastindex == 2 else ""
        return named_call({"name": match[1], "arguments": read_json(arguments), "id": call_id})


KIMI_MARKS = Marked(
    ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    ("<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"),
    r"(?:functions\.)?([\w.-]+):(\d+)",
)
DEEPSEEK_MARKS = Marked(
    ("<\uff5ctool\u2581calls\u2581begin\uff5c>", "<\uff5ctool\u2581calls\u2581end\uff5c>"),
    (
        "<\uff5ctool\u2581call\u2581begin\uff5c>",
        "<\uff5ctool\u2581sep\uff5c>",
        "<\uff5ctool\u2581call\u2581end\uff5c>",
    ),
    r"([\w.-]+)",
)
