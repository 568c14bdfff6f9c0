"""Bugs in calls and names."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from swe_plugin.synth.bugs.scope import Edit, Scope

__all__ = ["changed_default", "dropped_keyword", "swapped_arguments", "wrong_exception", "wrong_function", "wrong_name"]

_PAIRS = (
    "min max, any all, startswith endswith, lstrip rstrip, upper lower, find rfind, index rindex, split rsplit, "
    "partition rpartition, ljust rjust, ceil floor, isupper islower, keys values"
)
_OTHER = {a: b for pair in _PAIRS.split(", ") for a, b in (pair.split(), pair.split()[::-1])}
_EXCEPTIONS = {
    "KeyError": "IndexError",
    "IndexError": "KeyError",
    "ValueError": "TypeError",
    "TypeError": "ValueError",
    "AttributeError": "KeyError",
    "StopIteration": "IndexError",
    "UnicodeDecodeError": "KeyError",
    "OverflowError": "ValueError",
}


def swapped_arguments(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    """``f(a, b)`` becomes ``f(b, a)``."""
    if isinstance(node, ast.Call) and not any(isinstance(item, ast.Starred) for item in node.args):
        for left, right in zip(node.args, node.args[1:], strict=False):
            first, second = scope.source.of(left), scope.source.of(right)
            start, stop = scope.source.span(left)[0], scope.source.span(right)[1]
            middle = scope.source.cut((scope.source.span(left)[1], scope.source.span(right)[0]))
            if first != second and middle.strip() == ",":
                yield (start, stop), second + middle + first


def dropped_keyword(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    """``f(a, key=b)`` becomes ``f(a)``."""
    if isinstance(node, ast.Call) and node.args:
        ends = sorted(scope.source.span(item)[1] for item in (*node.args, *node.keywords))
        for keyword in node.keywords:
            if keyword.arg is not None:
                start, stop = scope.source.span(keyword)
                before = max(end for end in ends if end <= start)
                if scope.source.cut((before, start)).strip() == ",":
                    yield (before, stop), ""


def wrong_function(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    """``min`` becomes ``max``, ``.lstrip`` becomes ``.rstrip``."""
    if not isinstance(node, ast.Call):
        return
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    other = _OTHER.get(name)
    if other:
        stop = scope.source.span(node.func)[1]
        yield (stop - len(name.encode()), stop), other


def wrong_name(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    """A parameter takes another one's place."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in scope.parameters:
        for other in scope.parameters:
            if other != node.id:
                yield scope.source.span(node), other


def changed_default(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    """A parameter's default becomes another value."""
    if isinstance(node, ast.arguments):
        for default in (*node.defaults, *(item for item in node.kw_defaults if item is not None)):
            if isinstance(default, ast.Constant):
                value = default.value
                if isinstance(value, bool):
                    yield scope.source.span(default), str(not value)
                elif isinstance(value, int):
                    yield scope.source.span(default), str(value + 1)


def wrong_exception(node: ast.AST, scope: Scope) -> Iterator[Edit]:
    """``except KeyError`` becomes ``except IndexError``; the same where it is raised."""
    named: ast.AST | None = None
    if isinstance(node, ast.ExceptHandler):
        named = node.type
    elif isinstance(node, ast.Raise):
        named = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    if isinstance(named, ast.Name) and named.id in _EXCEPTIONS:
        yield scope.source.span(named), _EXCEPTIONS[named.id]
