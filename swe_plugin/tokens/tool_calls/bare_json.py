"""``{"name": ..., "parameters": {...}}`` and nothing else in the answer: Llama 3."""

from __future__ import annotations

import json

from swe_plugin.tokens.tool_calls.form import Found, named_call

__all__ = ["BareJson"]

_MARK = "<|python_tag|>"
_BETWEEN = " \t\r\n;"
_DECODER = json.JSONDecoder()


class BareJson:
    """An answer that begins with a brace is calls from end to end; any other has none."""

    def find(self, text: str) -> Found:
        """See `CallForm.find`."""
        left = text.strip().removeprefix(_MARK).lstrip()
        if not left.startswith("{"):
            return Found(text)
        found = Found("")
        number = 0
        while left:
            number += 1
            try:
                raw, end = _DECODER.raw_decode(left)
            except (ValueError, RecursionError) as error:
                found.errors.append(f"tool call {number}: not JSON ({error})")
                break
            found.add(number, named_call, raw, "arguments" if "arguments" in raw else "parameters")
            left = left[end:].lstrip(_BETWEEN)
        return found
