"""`Bug`: one small, exact change of a module that may break it."""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass

from swe_plugin.synth.bugs.source import SourceText, Span

__all__ = ["Bug"]


@dataclass(frozen=True, slots=True)
class Bug:
    """A change and what it leads to. Nothing but the changed bytes differs from the original.

    Attributes:
        kind: name of the procedure that made it, see `bugs.kinds`.
        source: the original module.
        span: what is replaced.
        after: what replaces it.
        function: qualified name of the function that holds it, as in ``Class.method``.
        first_line: of that function, decorators included, from 1.
    """

    kind: str
    source: SourceText
    span: Span
    after: str
    function: str
    first_line: int

    @property
    def path(self) -> str:
        """Of the module, relative to the repository."""
        return self.source.path

    @property
    def before(self) -> str:
        """The text that is replaced."""
        return self.source.cut(self.span)

    @property
    def line(self) -> int:
        """Of the change, from 1."""
        return self.source.data[: self.span[0]].count(b"\n") + 1

    @property
    def text(self) -> str:
        """The whole module with the bug."""
        return self.source.with_(self.span, self.after)

    @property
    def digest(self) -> str:
        """Of what it does: equal for equal results."""
        return hashlib.sha256(f"{self.path}\0{self.text}".encode()).hexdigest()[:16]

    def changes_something(self) -> bool:
        """Whether the result is Python and means something else. Parses the module."""
        try:
            return ast.dump(ast.parse(self.text)) != self.source.meaning
        except (SyntaxError, ValueError):
            return False
