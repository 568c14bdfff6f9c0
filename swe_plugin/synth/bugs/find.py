"""All bugs that the kinds can make of a module."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from swe_plugin.synth.bugs.bug import Bug
from swe_plugin.synth.bugs.kinds import KINDS
from swe_plugin.synth.bugs.scope import Scope
from swe_plugin.synth.bugs.source import SourceText, Span

__all__ = ["find_bugs", "first_line"]

Function = ast.FunctionDef | ast.AsyncFunctionDef
_SKIPPED = ("decorator_list", "returns", "annotation", "type_params")


def find_bugs(path: str, text: str, kinds: Iterable[str] = tuple(KINDS)) -> Iterator[Bug]:
    """Candidates inside functions, no two with the same result. `Bug.changes_something` tells the real ones.

    Annotations, decorators, f-strings (whose parts have no places before Python 3.12) and code that only type
    checkers see are left alone.

    Args:
        path: of the module, relative to the repository.
        text: of the module; a module that is no Python has no bugs.
        kinds: names of `KINDS`.
    """
    try:
        source = SourceText(path, text)
    except (SyntaxError, ValueError):
        return
    seen: set[tuple[Span, str]] = set()
    names = tuple(kinds)
    for node, scope, function in _nodes(source):
        for name in names:
            for span, after in KINDS[name](node, scope):
                if (span, after) not in seen:
                    seen.add((span, after))
                    yield Bug(name, source, span, after, function, first_line(scope.function))


def first_line(function: Function) -> int:
    """Of a function, decorators included: where its code object begins."""
    return min([function.lineno, *(item.lineno for item in function.decorator_list)])


def _nodes(source: SourceText) -> Iterator[tuple[ast.AST, Scope, str]]:
    """Nodes inside functions, with the qualified name of the innermost one."""
    waiting: list[tuple[ast.AST, ast.AST, tuple[str, ...], Function | None]] = [(source.tree, source.tree, (), None)]
    while waiting:
        node, parent, name, function = waiting.pop()
        if isinstance(node, ast.JoinedStr) or _for_type_checkers(node) or _docstring(node, parent):
            continue
        if function is not None:
            yield node, Scope(source, parent, function, _parameters(function)), ".".join(name)
        if isinstance(node, Function | ast.ClassDef):
            name = (*name, node.name)
        if isinstance(node, Function):
            function = node
        children = [child for field, value in ast.iter_fields(node) if field not in _SKIPPED for child in _list(value)]
        waiting += [(child, node, name, function) for child in reversed(children)]


def _list(value: object) -> list[ast.AST]:
    values = value if isinstance(value, list) else [value]
    return [item for item in values if isinstance(item, ast.AST)]


def _parameters(function: Function) -> tuple[str, ...]:
    arguments = function.args
    names = [item.arg for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return tuple(name for name in names if name not in ("self", "cls"))


def _for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def _docstring(node: ast.AST, parent: ast.AST) -> bool:
    return isinstance(parent, ast.Expr) and isinstance(node, ast.Constant)
