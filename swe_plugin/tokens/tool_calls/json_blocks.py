"""``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``: Hermes, Qwen2.5, Qwen3, QwQ."""

from __future__ import annotations

import re

from swe_plugin.tokens.tool_calls.form import Found, WrittenCall, named_call, read_json

__all__ = ["JsonBlocks"]

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_BLOCK = re.compile(re.escape(_OPEN) + r"(.*?)" + re.escape(_CLOSE), re.DOTALL)


class JsonBlocks:
    """One JSON object per block."""

    def find(self, text: str) -> Found:
        """See `CallForm.find`."""
        found = Found(_BLOCK.sub("", text))
        for number, match in enumerate(_BLOCK.finditer(text), 1):
            found.add(number, _read, match[1])
        if _OPEN in found.rest:
            found.errors.append("a tool call is not closed")
        return found


def _read(body: str) -> WrittenCall:
    return named_call(read_json(body))
