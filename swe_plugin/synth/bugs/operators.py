"""Bugs in operators and constants."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from swe_plugin.synth.bugs.scope import Edit, Scope

__all__ = ["arithmetic", "boolean", "comparison", "dropped_not", "flipped_flag", "off_by_one", "slice_bound"]

_COMPARED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: (r"<(?!=)", "<="),
    ast.LtE: (r"<=", "<"),
    ast.Gt: (r">(?!=)", ">="),
    ast.GtE: (r">=", ">"),
    ast.Eq: (r"==", "!="),
    ast.NotEq: (r"!=", "=="),
    ast.In: (r"\bin\b", "not in"),
    ast.NotIn: (r"\bnot\s+in\b", "in"),
    ast.Is: (r"\bis\b", "is not"),
    ast.IsNot: (r"\bis\s+not\b", "is"),
}
_COMPUTED: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: (r"-", "+"),
    ast.Mult: (r"\*", "+"),
    ast.FloorDiv: (r"//", "%"),
    ast.Div: (r"/", "*"),
    ast.Mod: (r"%", "//"),
    ast.LShift: (r"<<", ">>"),
    ast.RShift: (r">>", "<<"),
    ast.BitAnd: (r"&", "|"),
    ast.BitOr: (r"\|", "&"),
}
_LARGEST = 64


def comparison(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    """``<`` becomes ``<=``, ``==`` becomes ``!=``, ``in`` becomes ``not in``."""
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, operands, operands[1:], strict=False):
            word, other = _COMPARED[type(operator)]
            if span := scope.source.between(left, right, word):
                yield span, other


def boolean(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    """``and`` becomes ``or``, and the reverse."""
    if isinstance(node, ast.BoolOp):
        word, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            if span := scope.source.between(left, right, rf"\b{word}\b"):
                yield span, other


def arithmetic(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    """``+`` becomes ``-``, ``//`` becomes ``%``; not on texts, where it would only raise."""
    if isinstance(node, ast.BinOp) and type(node.op) in _COMPUTED and not _text(node.left) and not _text(node.right):
        word, other = _COMPUTED[type(node.op)]
        if span := scope.source.between(node.left, node.right, word):
            yield span, other


def off_by_one(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    """A small whole number in an index, a comparison, a sum or a call becomes the next one."""
    counted = isinstance(scope.parent, ast.Subscript | ast.Slice | ast.Compare | ast.BinOp | ast.Call | ast.UnaryOp)
    if counted and isinstance(node, ast.Constant) and type(node.value) is int and 0 <= node.value <= _LARGEST:
        yield scope.source.span(node), str(node.value + 1)
        if node.value:
            yield scope.source.span(node), str(node.value - 1)


def dropped_not(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    """``not x`` becomes ``x``."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        start, stop = scope.source.span(node)
        yield (start, stop), scope.source.cut((start, stop)).removeprefix("not").lstrip()


def flipped_flag(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    """``True`` becomes ``False``, and the reverse."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool) and not isinstance(scope.parent, ast.arguments):
        yield scope.source.span(node), str(not node.value)


def slice_bound(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    """A bound of a slice is gone: ``a[1:]`` becomes ``a[:]``."""
    if isinstance(node, ast.Slice):
        for bound in (node.lower, node.upper):
            if bound is not None:
                yield scope.source.span(bound), ""


def _text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
