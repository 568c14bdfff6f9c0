"""``to=functions.bash<|channel|>commentary json<|message|>{...}``: gpt-oss."""

from __future__ import annotations

import re

from swe_plugin.tokens.tool_calls.form import Found, WrittenCall, named_call, read_json

__all__ = ["Channels"]

_START, _MESSAGE = "<|start|>assistant", "<|message|>"
_END = re.compile(r"<\|(?:end|call|return)\|>")
_TO = re.compile(r"to=functions\.([\w.-]+)")
_OTHER = re.compile(r"\bto=")


class Channels:
    """Messages to several channels in one answer; those to a function are calls."""

    def find(self, text: str) -> Found:
        """See `CallForm.find`."""
        found, number = Found(""), 0
        for part in text.split(_START):
            header, opened, body = part.partition(_MESSAGE)
            if not _OTHER.search(header):
                found.rest += part
                continue
            number += 1
            found.add(number, _read, header, body if opened else "")
        return found


def _read(header: str, body: str) -> WrittenCall:
    name = _TO.search(header)
    if name is None:
        raise ValueError(f"{header!r} calls no function")
    arguments, _, rest = _END.sub("\0", body, count=1).partition("\0")
    if rest.strip():
        raise ValueError("expected nothing after the arguments")
    return named_call({"name": name[1], "arguments": read_json(arguments)})
