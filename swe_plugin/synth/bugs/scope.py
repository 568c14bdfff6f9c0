"""What a kind of bug is told about the place it looks at."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from swe_plugin.synth.bugs.source import SourceText, Span

__all__ = ["Edit", "Kind", "Scope"]

Edit = tuple[Span, str]
"""A span, and the text that replaces it."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a node is.

    Attributes:
        source: the module.
        parent: of the node.
        function: the innermost function around it.
        parameters: names of that function's parameters, without ``self`` and ``cls``.
    """

    source: SourceText
    parent: ast.AST
    function: ast.FunctionDef | ast.AsyncFunctionDef
    parameters: tuple[str, ...]


Kind = Callable[[ast.AST, Scope], Iterator[Edit]]
"""Looks at one node and says which edits of its kind it allows."""
