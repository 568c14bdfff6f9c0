"""A grader that gives partial credit."""

import dataclasses

from swe_plugin.environments.base import Environment
from swe_plugin.grading.tests import TestsGrader
from swe_plugin.types import Grade, Task, TestStatus


class FractionGrader(TestsGrader):
    """The hidden tests as `tests` runs them; the reward is the fraction of them that pass."""

    async def grade(self, task: Task, patch: str, environment: Environment) -> Grade:
        """As `TestsGrader`, with the flag `partial_credit` where some tests pass and some do not."""
        grade = await super().grade(task, patch, environment)
        if 0 < self.reward(task, grade) < 1:
            grade = dataclasses.replace(grade, flags=(*grade.flags, "partial_credit"))
        return grade

    def reward(self, task: Task, grade: Grade) -> float:
        """Fraction of the F2P and P2P ids that PASSED; 0 without any."""
        passed = [status is TestStatus.PASSED for status in grade.statuses.values()]
        return sum(passed) / max(len(passed), 1)
