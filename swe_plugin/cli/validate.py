"""What `swe-plugin validate` shows: a table that lives while tasks are checked, and the report."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from swe_plugin.validation.finding import Finding, Verdict
from swe_plugin.validation.report import Report

__all__ = ["LiveTable", "print_report"]

_STYLE = {Verdict.GOOD: "green", Verdict.ORDER_DEPENDENT: "yellow"}
_SHOWN = 12


class LiveTable:
    """Satisfies `validation.run.Watcher`. On a terminal a table, else a line per task that is done.

    Args:
        console: where to; the report goes elsewhere.
        total: tasks of the dataset.
    """

    def __init__(self, console: Console, total: int) -> None:
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        self._progress = Progress(TextColumn("tasks"), *columns, console=console)
        self._bar = self._progress.add_task("tasks", total=total)
        self._console, self._counts, self._known = console, Counter[Verdict](), 0
        self._doing: dict[str, tuple[str, float]] = {}
        self._live = Live(console=console, get_renderable=self._table, refresh_per_second=4, transient=True)

    def __enter__(self) -> LiveTable:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def doing(self, instance_id: str, what: str) -> None:
        """See `Watcher.doing`."""
        _, since = self._doing.get(instance_id, ("", time.monotonic()))
        self._doing[instance_id] = what, since

    def done(self, finding: Finding, *, known: bool) -> None:
        """See `Watcher.done`."""
        self._doing.pop(finding.instance_id, None)
        self._counts[finding.verdict] += 1
        self._known += known
        self._progress.advance(self._bar)
        if not known and (finding.verdict is not Verdict.GOOD or not self._console.is_terminal):
            self._console.print(_line(finding), soft_wrap=True)

    def _table(self) -> Group:
        table = Table("task", "at", "seconds", box=None, pad_edge=False)
        table.columns[2].justify = "right"
        now = time.monotonic()
        for name, (what, since) in list(self._doing.items())[:_SHOWN]:
            table.add_row(escape(name), what, f"{now - since:.0f}")
        counts = ", ".join(f"[{_style(verdict)}]{count} {verdict}[/]" for verdict, count in self._counts.most_common())
        known = f" ({self._known} of them from before)" if self._known else ""
        return Group(table, f"{counts or 'none is done'}{known}", self._progress)


def print_report(report: Report, files: Iterable[str], console: Console) -> None:
    """Counts, what is left out and why, what is slow or broken, and where the lists are."""
    table = Table("tasks", "verdict", "first of them")
    table.columns[0].justify = "right"
    for verdict, count in report.counts.most_common():
        first = next(finding for finding in report.findings if finding.verdict is verdict)
        text = first.instance_id + (f": {first.detail}" if first.detail else "")
        table.add_row(str(count), f"[{_style(verdict)}]{verdict}[/]", escape(text))
    console.print(table)
    data = report.to_json()
    for name, tests in list(data["mislabelled"].items())[:_SHOWN]:
        console.print(f"wrong list: {escape(name)}: {escape(', '.join(tests[:3]))}", soft_wrap=True)
    for use in report.bad_images()[:_SHOWN]:
        how = f"broken for {use.broken} of {use.tasks} tasks: {use.reason}" if use.broken else "slow"
        console.print(f"image {escape(use.name)}: {escape(how)} (slowest start {use.start_s:.1f} s)", soft_wrap=True)
    for finding in report.slow[:_SHOWN]:
        console.print(f"slow tests: {escape(finding.instance_id)}: {finding.tests_s:.1f} s", soft_wrap=True)
    unchecked = len(report.findings) - data["order_checked"]
    if unchecked:
        console.print(f"the order of tests was not changed for {unchecked} tasks")
    console.print(f"kept {len(report.kept)} of {len(report.findings)}: {escape(', '.join(files))}", soft_wrap=True)


def _style(verdict: Verdict) -> str:
    return _STYLE.get(verdict, "red")


def _line(finding: Finding) -> str:
    detail = f": {finding.detail}" if finding.detail else ""
    text = escape(f"{finding.instance_id} ({finding.total_s:.1f} s){detail}")
    return f"[{_style(finding.verdict)}]{finding.verdict}[/] {text}"
