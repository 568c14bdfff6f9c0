"""`Judge`: everything around a grader. A fresh environment, grade-only retries, the cache."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from swe_plugin.errors import EnvironmentUnavailable, GraderError, GraderTimeout, GradingAborted, PatchError
from swe_plugin.grading.base import Grader
from swe_plugin.grading.cache import GradeCache
from swe_plugin.types import AttemptFailure, Grade, Task, TestStatus

if TYPE_CHECKING:
    from swe_plugin.environments.base import EnvironmentSpec
    from swe_plugin.environments.pool import EnvironmentPool

__all__ = ["Judge", "Verdict"]

logger = logging.getLogger(__name__)

_SUSPECT = (GradingAborted, EnvironmentUnavailable)
"""What a patch can do to its own grading: hang, fill memory, disk or output, kill the environment."""


@dataclass(slots=True)
class Verdict:
    """What grading one patch came to.

    Attributes:
        grade: None if every attempt failed: ungradable, which is not zero.
        failures: one per failed attempt, in order; phase ``grade``, or ``control`` for a run without the patch.
        flags: of the grade, or why there is none: ``grader_timeout`` or ``grader_error``.
        duration_s: wall-clock seconds, waiting for a slot included.
    """

    grade: Grade | None
    failures: list[AttemptFailure] = field(default_factory=list)
    flags: tuple[str, ...] = ()
    duration_s: float = 0.0


class Judge:
    """Grades patches in environments of their own, drawn from the pool's grading slots.

    A patch must not escape its grade by keeping the tests from ending. So before the last attempt, if limits ended
    all others, the task is graded without the patch; if that ends in half the time and the last attempt does not, the
    patch is not resolved, flag ``tests_aborted`` (docs/decisions/grader_timeouts.md).

    Args:
        grader: the verdict itself.
        pool: where environments come from.
        spec: the environment of a task, given a label.
        max_attempts: gradings tried for one patch, each in a fresh environment (with 1, a second one follows a
            control run).
        cache: None to grade every patch anew.
        backoff_s: pause before the second attempt, doubled for each further one.
        overhead_s: how much longer than the task's own limit for its tests one grading may take.
    """

    def __init__(
        self,
        grader: Grader,
        pool: EnvironmentPool,
        spec: Callable[[Task, str], EnvironmentSpec],
        *,
        max_attempts: int = 2,
        cache: GradeCache | None = None,
        backoff_s: float = 0.5,
        overhead_s: float = 600.0,
    ) -> None:
        self.grader, self.cache = grader, cache
        self._pool, self._spec = pool, spec
        self._max_attempts, self.backoff_s, self._overhead_s = max_attempts, backoff_s, overhead_s

    async def judge(
        self, task: Task, patch: str, *, label: str = "", run_always: bool = False, foreign: bool = False
    ) -> Verdict:
        """Grade one patch. A failure is data: only a cancellation is raised.

        Args:
            task: whose tests judge.
            patch: empty for the untouched tree.
            label: for leases and logs; default the instance id.
            run_always: run the tests even if the grader knows the verdict without them.
            foreign: the patch was made elsewhere. If it does not apply, it is not resolved (flag
                ``patch_not_applied``); one that we extracted always applies, or something is broken.
        """
        began = time.perf_counter()
        failures: list[AttemptFailure] = []
        try:
            grade = None if run_always else self.grader.prejudge(task, patch)
            if grade is None:
                grade = await self._grade(task, patch, label or task.instance_id, failures)
            verdict = Verdict(grade, failures, grade.flags)
        except _Ungradable as error:
            verdict = Verdict(None, list(error.failures), (error.flag,))
            if foreign and error.not_applied:
                grade = Grade(resolved=False, flags=("patch_not_applied",), log=error.failures[-1].error)
                verdict = Verdict(grade, [], grade.flags)
        except Exception as error:  # a bug in a third party's prejudge
            failure = AttemptFailure.of(error, "grade", 1, label or task.instance_id)
            verdict = Verdict(None, [failure], ("grader_error",))
        verdict.duration_s = time.perf_counter() - began
        return verdict

    async def _grade(self, task: Task, patch: str, label: str, failures: list[AttemptFailure]) -> Grade:
        if self.cache is None:
            return await self._attempts(task, patch, label, failures)
        return await self.cache.get(task, patch, lambda: self._attempts(task, patch, label, failures))

    async def _attempts(self, task: Task, patch: str, label: str, failures: list[AttemptFailure]) -> Grade:
        healthy, suspect = False, True
        for attempt in itertools.count(1):
            try:
                return await self._once(task, patch, f"{label}-grade")
            except Exception as error:
                failures.append(AttemptFailure.of(error, "grade", attempt, label))
                logger.warning("%s", failures[-1])
                suspect = suspect and isinstance(error, _SUSPECT)
                if healthy and suspect:
                    return Grade(resolved=False, flags=("tests_aborted",), log=failures[-1].error)
                if attempt >= self._max_attempts and not (suspect and attempt == 1):
                    raise _Ungradable(failures, error) from error
            if suspect and attempt >= self._max_attempts - 1:
                healthy = await self._control(task, label, failures)
            await asyncio.sleep(self.backoff_s * 2 ** (attempt - 1))
        raise AssertionError("unreachable")

    async def _once(self, task: Task, patch: str, label: str) -> Grade:
        limit = task.grading.timeout_s + self._overhead_s
        async with self._pool.lease(self._spec(task, label), purpose="grading") as lease:
            deadline = asyncio.timeout(limit)
            try:
                async with deadline:
                    return await self.grader.grade(task, patch, lease.environment)
            except TimeoutError as error:
                if not deadline.expired():
                    raise
                raise GraderTimeout(f"the grading did not end within {limit:g} s (swe.grading.overhead_s)") from error

    async def _control(self, task: Task, label: str, failures: list[AttemptFailure]) -> bool:
        """Whether this task can be graded here and now, with time to spare: by its reference fix, else unchanged."""
        gold = task.gold_patch.strip() != ""
        try:
            grade = await self._once(task, task.gold_patch if gold else "", f"{label}-control-grade")
        except Exception as error:
            failures.append(AttemptFailure.of(error, "control", 1, label))
            return False
        ran = any(status is not TestStatus.MISSING for status in grade.statuses.values())
        return (grade.resolved if gold else ran) and grade.duration_s <= task.grading.timeout_s / 2


class _Ungradable(GraderError):
    """All attempts failed; carries what they failed with."""

    def __init__(self, failures: list[AttemptFailure], last: Exception) -> None:
        super().__init__(failures[-1].error)
        self.failures = failures
        self.flag = "grader_timeout" if isinstance(last, GraderTimeout) else "grader_error"
        self.not_applied = isinstance(last, PatchError)
