"""Hidden and visible tests: the agent's tree keeps some tests, the grader has them all."""

from __future__ import annotations

import ast
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from swe_plugin.synth.bugs.source import SourceText, Span
from swe_plugin.synth.project import Project

__all__ = ["Split", "split_files", "split_functions"]


@dataclass(frozen=True, slots=True)
class Split:
    """Attributes:
    visible: path -> text of test files in the agent's tree where it differs from the project's; None: not there.
    hidden_ids: tests that the agent's tree does not have.
    """

    visible: Mapping[str, str | None]
    hidden_ids: frozenset[str]

    def hidden_tests(self, project: Project) -> dict[str, str]:
        """Whole files that the grader puts in their place."""
        return {path: project.files[path] for path in self.visible}


def split_functions(
    project: Project, failing: Iterable[str], others: Iterable[str], rng: random.Random, *, visible: float
) -> Split:
    """Hide test functions: all that fail with the bug, and a random part of the others.

    A test that is inherited goes with its class; a class that its file refers to goes with the whole file.

    Args:
        project: before the bug.
        failing: ids of tests that fail with the bug.
        others: ids of the other tests.
        rng: chooses.
        visible: share of the others that stays.
    """
    failing, others = list(failing), list(others)
    cutters = {path: _Cutter(SourceText(path, project.files[path])) for path in _paths([*failing, *others], project)}
    units: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for test_id in [*failing, *others]:
        path, _, name = test_id.partition("::")
        if path in cutters:
            units[path, cutters[path].unit(name)].append(test_id)
    failing_set = set(failing)
    hidden = [unit for unit, ids in sorted(units.items()) if failing_set.intersection(ids) or rng.random() >= visible]
    chosen: defaultdict[str, list[str]] = defaultdict(list)
    for path, unit in hidden:
        chosen[path].append(unit)
    texts = {path: cutters[path].without(names) for path, names in chosen.items()}
    left_out = {path for path, text in texts.items() if text is None}
    ids = [
        test_id
        for (path, unit), found in units.items()
        if path in left_out or unit in chosen[path]
        for test_id in found
    ]
    return Split(texts, frozenset(ids))


def split_files(project: Project, failing: Iterable[str], others: Iterable[str]) -> Split:
    """Hide the whole files of tests that fail with the bug: where functions cannot be taken out one by one."""
    paths = _paths(failing, project)
    hidden = [test_id for test_id in [*failing, *others] if test_id.partition("::")[0] in paths]
    return Split(dict.fromkeys(paths), frozenset(hidden))


def _paths(ids: Iterable[str], project: Project) -> list[str]:
    return sorted({path for test_id in ids if (path := test_id.partition("::")[0]) in project.test_files})


class _Cutter:
    """Takes functions and classes out of a test file, byte by byte."""

    def __init__(self, source: SourceText) -> None:
        self._source = source
        self._nodes: dict[str, ast.AST] = {}
        self._siblings: dict[str, int] = {}
        self._collect(source.tree.body, "")

    def unit(self, name: str) -> str:
        """The function of a test, else its class, else (empty) its file."""
        parts = name.partition("[")[0].split("::")
        while parts and ".".join(parts) not in self._nodes:
            parts.pop()
        found = ".".join(parts)
        if isinstance(self._nodes.get(found), ast.ClassDef) and self._is_used(parts[-1]):
            return ""
        return found

    def without(self, names: Iterable[str]) -> str | None:
        """The file without them; None if nothing is left, or what is left is no Python."""
        names = set(names)
        if "" in names or not self._tests_left(names):
            return None
        data = self._source.data
        for span, text in sorted(self._cuts(names), reverse=True):
            data = data[: span[0]] + text + data[span[1] :]
        try:
            ast.parse(data)
        except SyntaxError:
            return None
        return data.decode()

    def _cuts(self, names: set[str]) -> Iterable[tuple[Span, bytes]]:
        for name in names:
            if any(name.startswith(f"{other}.") for other in names):
                continue
            node = self._nodes[name]
            start, stop = self._source.span(node)
            for decorator in getattr(node, "decorator_list", ()):
                start = min(start, self._source.span(decorator)[0] - 1)  # the at sign
            owner = name.rpartition(".")[0]
            inside = [other for other in self._nodes if other.rpartition(".")[0] == owner]
            emptied = bool(owner) and self._siblings[owner] <= sum(other in names for other in inside)
            first = emptied and name == min(set(inside) & names)
            yield ((start, stop), b"pass") if first else (self._whole_lines(start, stop), b"")

    def _whole_lines(self, start: int, stop: int) -> Span:
        """With the indentation before and the end of the line behind, if nothing else is on these lines."""
        data = self._source.data
        begin, end = data.rfind(b"\n", 0, start) + 1, data.find(b"\n", stop) + 1 or len(data)
        alone = not data[begin:start].strip() and not data[stop:end].strip()
        return (begin, end) if alone else (start, stop)

    def _tests_left(self, names: set[str]) -> bool:
        def gone(name: str) -> bool:
            return name in names or any(name.startswith(f"{other}.") for other in names)

        return any(not gone(name) and name.rpartition(".")[2].lower().startswith("test") for name in self._nodes)

    def _is_used(self, name: str) -> bool:
        return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(self._source.tree))

    def _collect(self, body: Iterable[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self._nodes[f"{prefix}{node.name}"] = node
            if isinstance(node, ast.ClassDef):
                self._siblings[f"{prefix}{node.name}"] = len(node.body)
                self._collect(node.body, f"{prefix}{node.name}.")
