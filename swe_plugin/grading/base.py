"""What a grader is: it judges one patch in an environment the agent has never touched."""

from __future__ import annotations

import abc

from swe_plugin.environments.base import Environment
from swe_plugin.types import Grade, Task

__all__ = ["Grader"]


class Grader(abc.ABC):
    """One per worker; holds no per-rollout state."""

    def prejudge(self, task: Task, patch: str) -> Grade | None:
        """The verdict if `patch` needs no environment to be judged (it is empty, say), else None."""
        return None

    @abc.abstractmethod
    async def grade(self, task: Task, patch: str, environment: Environment) -> Grade:
        """Apply `patch` to a fresh, started `environment` and judge it.

        Raises:
            GraderError: the verdict says nothing about the patch (a broken test harness, a time-out of the
                harness itself); the caller may retry in another environment.
            PatchError: `patch` does not apply to the baseline (a `GraderError`: we extracted it ourselves).
            EnvironmentUnavailable: the environment died.
        """

    @abc.abstractmethod
    def reward(self, task: Task, grade: Grade) -> float:
        """What a grade is worth: the component ``resolved`` of ``swe.grading.rewards``."""
