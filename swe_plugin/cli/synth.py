"""What `swe-plugin synth` shows: a bar per project while bugs are tried, and the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from swe_plugin.synth.bugs import Bug
from swe_plugin.synth.report import ProjectReport
from swe_plugin.synth.trial import Outcome

__all__ = ["SynthProgress", "print_report"]


class SynthProgress:
    """Satisfies `synth.run.Watcher`, for one project at a time. Lines instead of a bar where there is no terminal.

    Args:
        console: where to; the report goes elsewhere.
        count: tasks wanted per project.
    """

    def __init__(self, console: Console, count: int) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, TextColumn("[dim]{task.fields[state]}"), console=console)
        self._console, self._count = console, count
        self._bar: TaskID | None = None
        self._outcomes: Counter[str] = Counter()

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def begin(self, name: str) -> None:
        """The bar of the next project."""
        self._outcomes.clear()
        self._bar = self._progress.add_task(escape(name), total=self._count, state="")

    def doing(self, what: str) -> None:
        """See `Watcher.doing`."""
        if self._bar is not None:
            self._progress.update(self._bar, state=escape(what))
        if not self._console.is_terminal:
            self._console.print(escape(what), soft_wrap=True)

    def tried(self, bug: Bug, outcome: Outcome | None, kept: int) -> None:
        """See `Watcher.tried`."""
        self._outcomes[str(outcome or "infrastructure failed")] += 1
        state = ", ".join(f"{count} {name}" for name, count in self._outcomes.most_common())
        if self._bar is not None:
            self._progress.update(self._bar, completed=kept, state=state)
        if not self._console.is_terminal:
            place = escape(f"{bug.path}:{bug.line} {bug.function}")
            self._console.print(f"{outcome or 'infrastructure failed'}: {bug.kind} {place}", soft_wrap=True)


def print_report(reports: Sequence[ProjectReport], files: Sequence[str], console: Console) -> None:
    """A line per project: its tests, the bugs that were tried, what came of them."""
    table = Table(
        "project", "tests", "seconds", "bugs", "tasks", "kinds", "easy, medium, hard", "what became of the rest"
    )
    for report in reports:
        data = report.to_json()
        rest = {name: count for name, count in data["outcomes"].items() if name != Outcome.KEPT} | data["failed"]
        levels = ", ".join(str(data["difficulty"].get(name, 0)) for name in ("easy", "medium", "hard"))
        table.add_row(
            escape(report.name),
            str(report.tests),
            f"{report.tests_s:.1f}",
            str(data["bugs_tried"]),
            str(len(report.tasks)),
            str(len(data["kinds"])),
            levels,
            escape("\n".join(f"{count} {name}" for name, count in rest.items())),
        )
    console.print(table)
    total = sum(len(report.tasks) for report in reports)
    console.print(f"{total} tasks: {escape(', '.join(files))}", soft_wrap=True)
