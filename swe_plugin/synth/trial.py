"""`try_bug`: which tests notice a bug, each time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from swe_plugin.synth.baseline import Baseline
from swe_plugin.synth.bugs import Bug
from swe_plugin.synth.suite import Suite, SuiteRun
from swe_plugin.types import TestStatus

__all__ = ["Limits", "Outcome", "Trial", "try_bug"]

_CPU_S, _CPU_FACTOR = 10.0, 5.0
_WALL_S, _WALL_FACTOR = 60.0, 10.0
_FAILING = (TestStatus.FAILED, TestStatus.ERROR)


class Outcome(StrEnum):
    """What a bug is good for."""

    KEPT = "kept"
    UNNOTICED = "no test notices"
    HANGS = "tests do not end"
    BREAKS = "too much breaks"
    FLAKY = "not the same tests each time"
    NO_SPLIT = "tests cannot be split"
    NO_STATEMENT = "no usable statement"


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one run with a bug: seconds of the wall, and whole seconds of the processor."""

    timeout_s: float
    cpu_s: int

    @classmethod
    def of(cls, baseline: Baseline) -> Limits:
        """Some times what the suite takes without a bug."""
        wall = max(_WALL_S, _WALL_FACTOR * baseline.duration_s)
        return cls(wall, math.ceil(max(_CPU_S, _CPU_FACTOR * baseline.cpu_s)))


@dataclass(frozen=True, slots=True)
class Trial:
    """Attributes:
    outcome: `Outcome.KEPT` if tests notice the bug.
    fail_to_pass: ids that fail in every run.
    pass_to_pass: ids that pass in every run.
    messages: test id -> what its failure says, of the first run.
    dropped: ids that do not do the same each time.
    """

    outcome: Outcome
    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    messages: tuple[tuple[str, str], ...] = ()
    dropped: tuple[str, ...] = ()


async def try_bug(
    suite: Suite, baseline: Baseline, bug: Bug, *, runs: int, limits: Limits, most_failing: float
) -> Trial:
    """Run the suite with the bug: once to see whether it is noticed, then again.

    Args:
        suite: of the project.
        baseline: of the untouched project; only its passing tests count.
        bug: to try.
        runs: in all.
        limits: of one run.
        most_failing: share of the tests that may fail: more is no subtle bug.

    Raises:
        EnvironmentStartError, EnvironmentUnavailable: infrastructure failed.
    """
    done: list[SuiteRun] = []
    for number in range(1, runs + 1):
        label = f"{suite.project.name}-{bug.digest}@{number}"
        done.append(await suite.run({bug.path: bug.text}, label=label, timeout_s=limits.timeout_s, cpu_s=limits.cpu_s))
        if (outcome := _early(done[-1], baseline, most_failing)) is not None:
            return Trial(outcome if number == 1 else Outcome.FLAKY)
    statuses = {test_id: [run.status(test_id) for run in done] for test_id in baseline.passing}
    failing = tuple(test_id for test_id, seen in statuses.items() if all(status in _FAILING for status in seen))
    passing = tuple(test_id for test_id, seen in statuses.items() if set(seen) == {TestStatus.PASSED})
    dropped = tuple(sorted(statuses.keys() - {*failing, *passing}))
    if not failing:
        return Trial(Outcome.FLAKY, dropped=dropped)
    messages = tuple((test_id, done[0].record.failed.get(test_id, "")) for test_id in failing)
    return Trial(Outcome.KEPT, failing, passing, messages, dropped)


def _early(run: SuiteRun, baseline: Baseline, most_failing: float) -> Outcome | None:
    if run.timed_out:
        return Outcome.HANGS
    seen = [run.status(test_id) for test_id in baseline.passing]
    failing = sum(status in _FAILING for status in seen)
    if TestStatus.MISSING in seen or failing > most_failing * len(seen):
        return Outcome.BREAKS
    return None if failing else Outcome.UNNOTICED
