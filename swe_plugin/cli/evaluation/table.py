"""What an evaluation proved, for people."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from swe_plugin.evaluation.estimate import Estimate
from swe_plugin.evaluation.summary import Score, Summary

__all__ = ["print_summary"]


def print_summary(summary: Summary, console: Console) -> None:
    """One line per repository, one for all, and what is in no rate."""
    ks = list(summary.total.pass_at)
    table = Table("repository", "tasks", "verdicts", "resolved", *(f"pass@{k} [95%]" for k in ks), "failed")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, score in summary.repositories.items():
        table.add_row(*_row(escape(name), score))
    table.add_section()
    table.add_row(*_row("all", summary.total), style="bold")
    console.print(table)
    for line in _notes(summary):
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def _row(name: str, score: Score) -> list[str]:
    verdicts = f"{score.graded} of {score.samples}"
    failed = f"{score.failed} ({score.failure_rate:.1%})" if score.failure_rate is not None else "-"
    return [name, str(score.tasks), verdicts, str(score.passed), *map(_shown, score.pass_at.values()), failed]


def _shown(found: Estimate | None) -> str:
    return f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]" if found else "-"


def _notes(summary: Summary) -> list[str]:
    total, notes = summary.total, []
    if summary.failures:
        causes = ", ".join(f"{stop} {count}" for stop, count in summary.failures.items())
        notes.append(f"no verdict: {causes}; these samples are in no rate, neither as resolved nor as not resolved")
    for k, tasks in total.short.items():
        if tasks:
            notes.append(f"pass@{k} leaves out {tasks} tasks with fewer than {k} verdicts")
    if total.pending:
        notes.append(f"not run: {total.pending} samples; the same command goes on")
    if summary.unpredicted:
        notes.append(f"without a prediction, and in no rate: {summary.unpredicted} tasks")
    if summary.flags:
        notes.append("flags: " + ", ".join(f"{flag} {count}" for flag, count in summary.flags.items()))
    if summary.usage:
        notes.append("used: " + ", ".join(f"{name} {amount:g}" for name, amount in summary.usage.items()))
    return notes
