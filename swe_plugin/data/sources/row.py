"""`Row`: the columns of one row of a dataset, checked as they are read."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import Any

from swe_plugin.data.sources.dropped import Dropped, Reason

__all__ = ["Row"]

_PATCHED = re.compile(r"^(?:---|\+\+\+) [ab]/([^\t\n]+)", re.MULTILINE)


class Row:
    """Values by column name. What a column holds is taken as it is or refused, never guessed: a version 3.10 that
    somebody wrote as a number is 3.1 by now and cannot be repaired here.

    Args:
        values: the row.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def text(self, *columns: str) -> str:
        """The first of `columns` that is there and not null; empty if none is.

        Raises:
            Dropped: it is no text.
        """
        for column in columns:
            value = self.values.get(column)
            if value is not None:
                if not isinstance(value, str):
                    raise Dropped(Reason.BAD_ROW, f"column {column}: {_shown(value)} must be text, in quotes")
                return value
        return ""

    def tests(self, column: str) -> tuple[str, ...]:
        """Test ids of a column: a list, or a list written as JSON or as Python does; none if it is not there.

        Ids are exact. Blanks and quotes belong to them.

        Raises:
            Dropped: anything else.
        """
        value = self.values.get(column)
        if isinstance(value, str):
            value = _literal(value, column) if value.strip() else []
        if value is None:
            return ()
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) and item for item in value):
            raise Dropped(Reason.BAD_TESTS, f"column {column}: {_shown(value)} is no list of test ids")
        return tuple(dict.fromkeys(value))

    def mapping(self, column: str) -> Mapping[str, Any]:
        """A struct, or one written as JSON; empty if it is not there.

        Raises:
            Dropped: anything else.
        """
        value = self.values.get(column)
        if isinstance(value, str) and value.strip():
            value = _literal(value, column)
        if not value:
            return {}
        if not isinstance(value, Mapping):
            raise Dropped(Reason.BAD_ROW, f"column {column}: {_shown(value)} is no object")
        return value

    def patched(self, column: str) -> tuple[str, ...]:
        """Paths of the files in a unified diff."""
        return tuple(dict.fromkeys(path.rstrip("\r") for path in _PATCHED.findall(self.text(column))))

    def kept(self, *columns: str) -> dict[str, str]:
        """Those of `columns` that are there, for `Task.metadata`."""
        return {column: text for column in columns if (text := self.text(column))}


def _literal(text: str, column: str) -> Any:
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    raise Dropped(Reason.BAD_TESTS, f"column {column}: {_shown(text)} is neither JSON nor a Python literal")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
