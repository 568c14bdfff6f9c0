"""`synthesize`: the tasks of one project, several bugs at once, each remembered as soon as it is tried."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from swe_plugin.errors import InfrastructureError
from swe_plugin.synth.baseline import Baseline, measure_baseline
from swe_plugin.synth.candidates import candidates
from swe_plugin.synth.maker import Made, TaskMaker
from swe_plugin.synth.report import ProjectReport
from swe_plugin.synth.trial import Outcome
from swe_plugin.types import Task

if TYPE_CHECKING:
    from swe_plugin.data.ledger import Ledger
    from swe_plugin.synth.bugs import Bug
    from swe_plugin.synth.settings import SynthSettings
    from swe_plugin.synth.statement import Writer
    from swe_plugin.synth.suite import Suite

__all__ = ["Watcher", "synthesize"]

_FAILURES_IN_A_ROW = 8
_REASON_CHARS = 200


class Watcher(Protocol):
    """Sees the work. All methods return at once."""

    def doing(self, what: str) -> None:
        """What is going on, before something slow."""

    def tried(self, bug: Bug, outcome: Outcome | None, kept: int) -> None:
        """A bug was tried (None: infrastructure failed); `kept` tasks exist."""


async def synthesize(
    suite: Suite, settings: SynthSettings, writer: Writer, ledger: Ledger, watcher: Watcher, *, jobs: int
) -> ProjectReport:
    """Make up to ``settings.count`` tasks.

    Bugs are tried in one order and the first ones that become tasks are taken, so that the result does not depend on
    `jobs` or on interruptions.

    Args:
        suite: tests of the project.
        settings: how.
        writer: of statements.
        ledger: open; bugs that were tried before with the same project and settings are not tried again.
        watcher: told of everything.
        jobs: bugs at once.

    Raises:
        ConfigError: the project's tests cannot be used.
        InfrastructureError: nothing works, several times in a row.
        asyncio.CancelledError: the caller was cancelled; no environment is left.
    """
    project = suite.project
    image = suite.image
    digest = settings.digest(project.digest, [image.base, *image.requirements, image.as_of, *suite.command])
    known = ledger.done.get(f"{digest}/baseline")
    if known is None:
        watcher.doing(f"{project.name}: running its tests, {settings.runs} times")
        known = (await measure_baseline(suite, runs=settings.runs, timeout_s=settings.timeout_s)).to_json()
        ledger.add(f"{digest}/baseline", known)
    baseline = Baseline.from_json(known)
    maker = TaskMaker(suite, baseline, writer, settings)
    work = _Work(maker, digest, ledger, watcher, asyncio.Semaphore(jobs))
    await work.run(candidates(project, baseline, settings))
    name = f"{project.name} {project.version}"
    report = ProjectReport(name, len(baseline.passing), len(baseline.unstable), baseline.duration_s)
    report.left_out = len(project.left_out)
    report.outcomes.update(made.outcome for made in work.made.values())
    report.failed = work.failed
    report.tasks = work.chosen()
    return report


@dataclass(slots=True)
class _Work:
    maker: TaskMaker
    digest: str
    ledger: Ledger
    watcher: Watcher
    free: asyncio.Semaphore
    made: dict[int, Made] = field(default_factory=dict)
    failed: Counter[str] = field(default_factory=Counter)
    in_a_row: int = 0

    async def run(self, bugs: Iterator[Bug]) -> None:
        """Try bugs until there are enough tasks."""
        settings = self.maker.settings
        try:
            async with asyncio.TaskGroup() as group:
                for number, bug in enumerate(bugs):
                    await self.free.acquire()
                    if number >= settings.attempts or len(self.chosen()) >= settings.count:
                        self.free.release()
                        break
                    group.create_task(self._try(number, bug))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors

    def chosen(self) -> list[Task]:
        """The first tasks, as many as wanted, and not too many of one function."""
        settings, functions = self.maker.settings, Counter[tuple[str, str]]()
        tasks: list[Task] = []
        for _, made in sorted(self.made.items(), key=lambda item: item[0]):
            if made.task is not None and len(tasks) < settings.count:
                place = made.task.metadata["path"], made.task.metadata["function"]
                functions[place] += 1
                if functions[place] <= settings.per_function:
                    tasks.append(made.task)
        return tasks

    async def _try(self, number: int, bug: Bug) -> None:
        key = f"{self.digest}/{bug.kind}/{bug.digest}"
        outcome: Outcome | None = None
        try:
            known = self.ledger.done.get(key)
            made = _made(known) if known is not None else await self.maker.make(bug)
            if known is None:
                task = made.task.to_json() if made.task else None
                self.ledger.add(key, {"outcome": str(made.outcome), "task": task})
            self.made[number], outcome, self.in_a_row = made, made.outcome, 0
        except InfrastructureError as error:
            self.failed[f"{type(error).__name__}: {error}"[:_REASON_CHARS]] += 1
            self.in_a_row += 1
            if self.in_a_row >= _FAILURES_IN_A_ROW:
                raise
        finally:
            self.free.release()
        self.watcher.tried(bug, outcome, len(self.chosen()))


def _made(record: dict[str, Any]) -> Made:
    task = record["task"]
    return Made(Outcome(record["outcome"]), Task.from_json(task) if task else None)
