"""`swe-plugin tasks`: what a dataset holds, and finding one task in it."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable
from typing import Any

from rich.console import Console, Group
from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table

from swe_plugin.errors import ConfigError
from swe_plugin.types import Task

__all__ = ["describe", "find_task", "overview", "print_task", "task_table"]

_WORDS_CHARS = 70


def find_task(tasks: Iterable[Task], instance_id: str, dataset: str) -> Task:
    """The task of that name; reads no further than it.

    Raises:
        ConfigError: there is none; names the nearest.
    """
    names: list[str] = []
    for task in tasks:
        if task.instance_id == instance_id:
            return task
        names.append(task.instance_id)
    near = difflib.get_close_matches(instance_id, names, n=1, cutoff=0.3)
    hint = f"did you mean {near[0]}? " if near else ""
    raise ConfigError("task", instance_id, f"{hint}dataset {dataset} has {len(names)} tasks: swe-plugin tasks")


def overview(task: Task) -> dict[str, Any]:
    """One line of the list."""
    return {
        "instance_id": task.instance_id,
        "repo": task.repo,
        "split": str(task.metadata.get("split", "")),
        "problem": " ".join(task.problem_statement.split())[:_WORDS_CHARS],
        "fail_to_pass": len(task.grading.fail_to_pass),
        "pass_to_pass": len(task.grading.pass_to_pass),
    }


def describe(task: Task, *, reveal: bool) -> dict[str, Any]:
    """A whole task. Unless revealed, without what gives the answer away: gold patch, hidden tests, metadata."""
    data = dataclasses.asdict(task) | {"split": str(task.metadata.get("split", ""))}
    if not reveal:
        del data["gold_patch"], data["metadata"], data["grading"]["tests"]
    return data


def task_table(tasks: Iterable[Task]) -> Table:
    """The list, for people."""
    table = Table("instance", "repo", "split", "problem", "F2P", "P2P")
    table.columns[0].no_wrap = True
    for task in tasks:
        table.add_row(*(escape(str(value)) for value in overview(task).values()))
    return table


def print_task(task: Task, console: Console, *, reveal: bool) -> None:
    """One task, for people."""
    data = describe(task, reveal=reveal)
    grading = data["grading"]
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    rows = {
        "instance": task.instance_id,
        "repo": task.repo,
        "split": data["split"],
        "problem": task.problem_statement,
        "image": f"{task.image.base}, work directory {task.image.workdir}",
        "base commit": task.base_commit,
        "graded by": " ".join(grading["command"]),
        "time limit": f"{grading['timeout_s']:g} s",
        "F2P": "\n".join(grading["fail_to_pass"]),
        "P2P": "\n".join(grading["pass_to_pass"]),
    }
    for name, value in rows.items():
        if value:
            table.add_row(name, escape(value))
    shown = [table, *_files("files", task.image.files)]
    if reveal:
        shown += [*_files("hidden tests", task.grading.tests), *_files("reference fix", {"gold.diff": task.gold_patch})]
    console.print(Group(*shown))


def _files(title: str, files: Any) -> list[Any]:
    return [
        part
        for path, text in files.items()
        for part in (
            f"\n[bold]{title}: {escape(path)}[/bold]",
            Syntax(text, Syntax.guess_lexer(path, text), word_wrap=True),
        )
    ]
