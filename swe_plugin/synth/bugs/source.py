"""`SourceText`: a module's text, its syntax tree, and which bytes each node is."""

from __future__ import annotations

import ast
import re
from functools import cached_property

__all__ = ["SourceText", "Span"]

Span = tuple[int, int]
"""Bytes ``[start, stop)`` of the text in UTF-8."""
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)?")


class SourceText:
    """One module.

    Args:
        path: relative to the repository.
        text: of the module.

    Raises:
        SyntaxError, ValueError: it is no Python.
    """

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text, self.data = path, text, text.encode()
        self.tree = ast.parse(text)

    @cached_property
    def _offsets(self) -> list[int]:
        return [match.start() for match in _LINE.finditer(self.data)]

    @cached_property
    def meaning(self) -> str:
        """The syntax tree as text: equal for modules that differ in form only."""
        return ast.dump(self.tree)

    def span(self, node: ast.AST) -> Span:
        """Where a statement or an expression is."""
        start = self._offsets[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        stop = self._offsets[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return start, stop

    def cut(self, span: Span) -> str:
        """The text of a span."""
        return self.data[slice(*span)].decode()

    def of(self, node: ast.AST) -> str:
        """The text of a node."""
        return self.cut(self.span(node))

    def between(self, left: ast.AST, right: ast.AST, word: str) -> Span | None:
        """The one place of a pattern between two nodes: where an operator is, which is no node."""
        start, stop = self.span(left)[1], self.span(right)[0]
        found = list(re.finditer(word.encode(), self.data[start:stop]))
        return (start + found[0].start(), start + found[0].end()) if len(found) == 1 else None

    def with_(self, span: Span, replacement: str) -> str:
        """The text with something else in place of a span."""
        return (self.data[: span[0]] + replacement.encode() + self.data[span[1] :]).decode()
