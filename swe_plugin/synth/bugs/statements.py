"""Bugs in statements and branches."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from swe_plugin.synth.bugs.scope import Edit, Scope

__all__ = [
    "dead_branch",
    "dropped_raise",
    "dropped_statement",
    "loop_control",
    "negated_condition",
    "return_none",
    "swapped_branches",
]


def negated_condition(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    """``if x`` becomes ``if not (x)``."""
    if isinstance(node, ast.If | ast.While | ast.IfExp) and not _is_not(node.test):
        test = scope.source.of(node.test)
        yield scope.source.span(node.test), f"not {test}" if isinstance(node.test, ast.Name) else f"not ({test})"


def dead_branch(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    """A condition is always false, or always true where there is an else."""
    if isinstance(node, ast.If) and not isinstance(node.test, ast.Constant):
        yield scope.source.span(node.test), "False"
        if node.orelse:
            yield scope.source.span(node.test), "True"


def swapped_branches(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    """``a if x else b`` becomes ``b if x else a``."""
    if isinstance(node, ast.IfExp):
        source = scope.source
        body, orelse = source.span(node.body), source.span(node.orelse)
        middle = source.cut((body[1], orelse[0]))
        if source.cut(body) != source.cut(orelse):
            yield (body[0], orelse[1]), source.cut(orelse) + middle + source.cut(body)


def dropped_raise(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    """An error is not raised."""
    if isinstance(node, ast.Raise):
        yield scope.source.span(node), "pass"


def return_none(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    """A result is forgotten."""
    if isinstance(node, ast.Return) and node.value is not None and scope.source.of(node.value) != "None":
        yield scope.source.span(node.value), "None"


def dropped_statement(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    """A call for its effect, an update or an assignment to something that lasts is left out."""
    lasting = isinstance(node, ast.Assign) and all(
        isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets
    )
    if lasting or isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield scope.source.span(node), "pass"


def loop_control(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    """``break`` becomes ``continue``, and the reverse."""
    if isinstance(node, ast.Break):
        yield scope.source.span(node), "continue"
    elif isinstance(node, ast.Continue):
        yield scope.source.span(node), "break"


def _is_not(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
