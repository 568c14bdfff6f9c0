"""``[TOOL_CALLS]``: Mistral, as a name with its arguments or as a JSON list."""

from __future__ import annotations

import re

from swe_plugin.tokens.tool_calls.form import Found, WrittenCall, named_call, read_json

__all__ = ["Bracketed"]

_MARK = "[TOOL_CALLS]"
_CALL = re.compile(r"\s*(?P<name>[^\s\[\]{}]+)\s*(?:\[CALL_ID\]\s*(?P<id>\w+)\s*)?\[ARGS\](?P<arguments>.*)", re.DOTALL)


class Bracketed:
    """A mark before each call, or before a list of calls."""

    def find(self, text: str) -> Found:
        """See `CallForm.find`."""
        rest, *parts = text.split(_MARK)
        found = Found(rest)
        for number, part in enumerate(parts, 1):
            if not part.lstrip().startswith("["):
                found.add(number, _read, part)
                continue
            try:
                raw = read_json(part.strip())
            except ValueError as error:
                found.errors.append(f"tool call {number}: {error}")
                continue
            for item in raw:
                found.add(number, named_call, item)
        return found


def _read(part: str) -> WrittenCall:
    match = _CALL.fullmatch(part)
    if match is None:
        raise ValueError("expected a name, [ARGS] and a JSON object")
    return named_call({"name": match["name"], "arguments": read_json(match["arguments"]), "id": match["id"] or ""})
