"""The patch that takes a bug back."""

from __future__ import annotations

import difflib

__all__ = ["unified_diff"]

_NO_NEWLINE = "\\ No newline at end of file"


def unified_diff(path: str, before: str, after: str) -> str:
    """One file's change in the form that ``git apply`` reads; only line feeds end lines, as for git."""
    names = f"a/{path}", f"b/{path}"
    lines = list(difflib.unified_diff(_lines(before), _lines(after), *names, lineterm=""))
    return "".join(f"{line}\n" for item in lines for line in item.split("\0"))


def _lines(text: str) -> list[str]:
    """Lines without their ends; the last one says, behind a zero, that it has none."""
    lines = text.split("\n")
    if lines[-1] == "":
        return lines[:-1]
    return [*lines[:-1], f"{lines[-1]}\0{_NO_NEWLINE}"]
