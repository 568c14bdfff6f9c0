"""`Progress`: what is shown while an evaluation runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from swe_plugin.evaluation.sample_result import SampleResult

__all__ = ["Progress"]


class Progress:
    """A bar on a terminal, else one line per sample.

    Args:
        console: where to.
        total: samples that are to be run.
    """

    def __init__(self, console: Console, total: int) -> None:
        self._console, self._total = console, total
        self._resolved = self._graded = self._failed = 0
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal or console.quiet,
        )
        self._row = self._bar.add_task("starting", total=total)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """While in here, the bar is."""
        with self._bar:
            yield

    def seen(self, result: SampleResult) -> None:
        """One more is done."""
        self._graded += result.resolved is not None
        self._resolved += bool(result.resolved)
        self._failed += result.failed
        counts = f"{self._resolved} of {self._graded} resolved" + (f", {self._failed} failed" if self._failed else "")
        self._bar.update(self._row, advance=1, description=counts)
        if result.failed or self._bar.disable:
            done = self._graded + self._failed
            self.say(f"{done}/{self._total} {result.instance_id}@{result.session}: {_verdict(result)}")

    def say(self, text: str) -> None:
        """A line above the bar."""
        self._console.print(escape(text), soft_wrap=True, highlight=False)


def _verdict(result: SampleResult) -> str:
    if result.failed:
        return f"no verdict ({result.stop}): {' '.join(result.error.split())[:300]}"
    verdict = {True: "resolved", False: "not resolved", None: "left out"}[result.resolved]
    flags = f", {', '.join(result.flags)}" if result.flags else ""
    return f"{verdict} ({result.stop}, {result.seconds:.1f} s{flags})"
