"""`TaskCheck`: what is run to know whether a task is good, through the worker and the grader of training."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from swe_plugin.errors import PatchError
from swe_plugin.grading.integrity import met
from swe_plugin.policies.scripted import ScriptedPolicy
from swe_plugin.types import AttemptFailure, Grade, StopReason, TestStatus
from swe_plugin.validation.finding import Finding, Verdict
from swe_plugin.validation.shuffle import is_pytest, shuffled, was_shuffled

if TYPE_CHECKING:
    from swe_plugin.grading.judge import Verdict as Judged
    from swe_plugin.rollout.worker import RolloutWorker
    from swe_plugin.types import Image, Task

__all__ = ["Effort", "TaskCheck"]

_SHOWN_TESTS = 20


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is run.

    Attributes:
        repeat: gradings of the gold patch, and of the untouched tree, each.
        orders: further gradings of the gold patch in random orders of the tests (pytest only).
    """

    repeat: int = 2
    orders: int = 1


class _Done(Exception):
    """Nothing more needs to be run."""

    def __init__(self, verdict: Verdict, detail: str, tests: Sequence[str] = ()) -> None:
        super().__init__(detail)
        self.verdict, self.detail, self.tests = verdict, detail, tuple(tests)


@dataclass(slots=True)
class TaskCheck:
    """One task, checked once.

    Attributes:
        worker: of training, with the scaffold ``gold`` and without a grade cache.
        task: what is checked.
        effort: how much is run.
        say: told what is going on, in two or three words.
    """

    worker: RolloutWorker
    task: Task
    effort: Effort
    say: Callable[[str], None]
    _start_s: float = 0.0
    _tests_s: float = 0.0
    _mislabelled: tuple[str, ...] = ()
    _flags: tuple[str, ...] = ()
    _order_checked: bool = False

    async def run(self) -> Finding:
        """Run all of it, or as much as settles the matter. A failure is a finding; only a cancellation is raised."""
        began = time.perf_counter()
        try:
            await self._run()
            done = _Done(Verdict.GOOD, "")
        except _Done as error:
            done = error
        return Finding(
            instance_id=self.task.instance_id,
            image=_name(self.task.image),
            verdict=done.verdict,
            detail=done.detail,
            tests=done.tests[:_SHOWN_TESTS],
            mislabelled=self._mislabelled[:_SHOWN_TESTS],
            flags=self._flags,
            order_checked=self._order_checked,
            start_s=round(self._start_s, 3),
            tests_s=round(self._tests_s, 3),
            total_s=round(time.perf_counter() - began, 3),
        )

    async def _run(self) -> None:
        if not self.task.gold_patch.strip():
            raise _Done(Verdict.NO_GOLD, "the row has no gold patch, so nothing can be shown")
        patch, first = await self._gold()
        gold = [first]
        for number in range(2, self.effort.repeat + 1):
            gold.append(await self._grade(patch, f"gold {number} of {self.effort.repeat}"))
        self._check_flaky(gold, "with the gold patch")
        if not first.resolved:
            failing = [item for item, status in first.statuses.items() if not met(self.task.grading, item, status)]
            raise _Done(Verdict.GOLD_FAILS, _why(self.task, first, failing), failing)
        untouched = [
            await self._grade("", f"empty {number} of {self.effort.repeat}")
            for number in range(1, self.effort.repeat + 1)
        ]
        self._check_flaky(untouched, "on the untouched tree")
        if untouched[0].resolved:
            raise _Done(Verdict.EMPTY_PASSES, "all tests pass on the untouched tree: they prove nothing")
        self._mislabelled = self._labels(untouched[0])
        if is_pytest(self.task):
            await self._orders(patch, first)

    async def _gold(self) -> tuple[str, Grade]:
        """The patch and the grade of a whole rollout with the reference fix."""
        self.say(f"gold 1 of {self.effort.repeat}")
        make = partial(ScriptedPolicy, ())
        result = await self.worker.run(self.task, 0, make, step=0, phase="val")
        self._start_s = max(self._start_s, result.timings.get("start", 0.0))
        self._flags = tuple(result.flags)
        if result.grade is None:
            raise _no_grade(result.stop, result.failures)
        self._tests_s = max(self._tests_s, result.grade.duration_s)
        if result.grade.resolved and result.reward != 1.0:
            detail = f"resolved, and yet the reward is {result.reward}: flags {', '.join(result.flags)}"
            raise _Done(Verdict.GOLD_FAILS, detail)
        return result.patch, result.grade

    async def _judge(self, task: Task, patch: str, what: str) -> Judged:
        self.say(what)
        label = f"{task.instance_id}@{what.replace(' ', '-')}"
        judged = await self.worker.judge.judge(task, patch, label=label, run_always=True)
        self._tests_s = max(self._tests_s, judged.grade.duration_s if judged.grade else 0.0)
        return judged

    async def _grade(self, patch: str, what: str) -> Grade:
        judged = await self._judge(self.task, patch, what)
        if judged.grade is None:
            raise _no_grade(StopReason.GRADER_ERROR, judged.failures)
        return judged.grade

    def _check_flaky(self, grades: Sequence[Grade], when: str) -> None:
        first = grades[0]
        changing = [item for item in first.statuses if len({grade.statuses.get(item) for grade in grades}) > 1]
        if changing or len({grade.resolved for grade in grades}) > 1:
            detail = f"of {len(grades)} gradings {when} not all agree: {_some(changing) or 'resolved or not'}"
            raise _Done(Verdict.FLAKY, detail, changing)

    def _labels(self, untouched: Grade) -> tuple[str, ...]:
        """Ids that are on the wrong list; none if the tests said nothing at all, as where the tree cannot be loaded."""
        spec, statuses = self.task.grading, untouched.statuses
        if all(status is TestStatus.MISSING for status in statuses.values()):
            return ()
        passing = [item for item in spec.fail_to_pass if met(spec, item, statuses[item])]
        failing = [item for item in spec.pass_to_pass if not met(spec, item, statuses[item])]
        return (*passing, *failing)

    async def _orders(self, patch: str, first: Grade) -> None:
        for seed in range(1, self.effort.orders + 1):
            changed = await self._in_order(seed, patch, first, "")
            if changed is None:
                return
            self._order_checked = True
            if not changed:
                continue
            again = await self._in_order(seed, patch, first, " again")
            if moved := [item for item in again or () if item in changed]:
                detail = f"other results in a random order (seed {seed}): {_some(moved)}"
                raise _Done(Verdict.ORDER_DEPENDENT, detail, moved)
            raise _Done(Verdict.FLAKY, f"one of two gradings in one order differs: {_some(changed)}", changed)

    async def _in_order(self, seed: int, patch: str, first: Grade, nth: str) -> list[str] | None:
        """Ids with another status than in the usual order; None if the order could not be changed.

        Raises:
            _Done: the tests do not end.
        """
        judged = await self._judge(shuffled(self.task, seed), patch, f"order {seed} of {self.effort.orders}{nth}")
        if {"tests_aborted", "grader_timeout"}.intersection(judged.flags):
            raise _Done(Verdict.ORDER_DEPENDENT, f"the tests do not end in a random order (seed {seed})")
        if judged.grade is None or not was_shuffled(judged.grade):
            return None
        return [item for item, status in judged.grade.statuses.items() if status != first.statuses[item]]


def _name(image: Image) -> str:
    """Of an image, by what it is made of; tasks that differ in their files only share it."""
    parts = [
        image.base,
        *image.requirements,
        *([f"{image.repository}@{image.commit[:12]}"] if image.repository else []),
    ]
    return " + ".join([*parts, *(["setup"] if image.setup else [])])


def _no_grade(stop: StopReason, failures: Sequence[AttemptFailure]) -> _Done:
    """What a missing grade says about the task: the image is broken, the fix does not apply, or nothing yet."""
    last = failures[-1] if failures else None
    reason = " ".join(last.error.split())[:500] if last else str(stop)
    if stop is StopReason.ENVIRONMENT_START:
        return _Done(Verdict.BROKEN_IMAGE, reason)
    if last is not None and last.phase == "agent" and last.error.startswith(PatchError.__name__):
        return _Done(Verdict.GOLD_FAILS, reason)
    return _Done(Verdict.UNGRADABLE, f"{stop}: {reason}")


def _why(task: Task, grade: Grade, failing: Sequence[str]) -> str:
    total = len(task.grading.fail_to_pass) + len(task.grading.pass_to_pass)
    missing = sum(grade.statuses[item] is TestStatus.MISSING for item in failing)
    seen = f", {missing} of them not seen in the output" if missing else ""
    aborted = "tests_aborted, " if "tests_aborted" in grade.flags else ""
    return f"{aborted}{len(failing)} of {total} tests fail with the gold patch{seen}: {_some(failing)}"


def _some(ids: Sequence[str], count: int = 3) -> str:
    more = f" and {len(ids) - count} more" if len(ids) > count else ""
    return ", ".join(ids[:count]) + more
