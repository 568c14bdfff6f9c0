"""`Assessor`: from an agent's work to a reward, or to the reason why there is none."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from swe_plugin.grading.honesty import UNREAD, Policy
from swe_plugin.rollout.outcome import Row, outcome
from swe_plugin.types import AttemptFailure, Grade, Phase, RolloutResult, StopReason

if TYPE_CHECKING:
    from swe_plugin.grading.honesty import Honesty
    from swe_plugin.grading.judge import Judge
    from swe_plugin.grading.rewards import Rewards

__all__ = ["Assessor"]

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Assessor:
    """Grade, signals, reward.

    Attributes:
        judge: how patches become grades.
        rewards: how graded rollouts become numbers.
        honesty: what is noticed, and what follows.
    """

    judge: Judge
    rewards: Rewards
    honesty: Honesty

    async def assess(self, result: RolloutResult, label: str, *, foreign: bool = False) -> None:
        """Set grade, flags, reward and its components of `result`, or turn it into one without a row.

        Args:
            result: an episode that ended; its `patch` is graded.
            label: instance and session, for leases and logs.
            foreign: the patch was made elsewhere, see `Judge.judge`.
        """
        if unread := UNREAD.intersection(result.flags):
            result.grade = Grade(resolved=False, flags=tuple(unread))
        else:
            verdict = await self.judge.judge(result.task, result.patch, label=label, foreign=foreign)
            result.grade, result.timings["grade"] = verdict.grade, verdict.duration_s
            result.phases.append(Phase("grade", time.time() - verdict.duration_s, verdict.duration_s))
            result.failures += verdict.failures
            result.flags += verdict.flags
        result.flags = self.honesty.flags(result)
        policy = self.honesty.policy(result.flags)
        if result.grade is None:
            result.stop = StopReason.GRADER_ERROR
        elif policy is Policy.DROP:
            result.stop = StopReason.DISHONEST
        elif outcome(result.stop).row is not Row.NONE:
            await self._reward(result, label, void=policy is Policy.ZERO)

    async def _reward(self, result: RolloutResult, label: str, *, void: bool) -> None:
        try:
            result.rewards = await self.rewards.values(result)
            result.reward = 0.0 if void else self.rewards.total(result.rewards)
        except Exception as error:
            logger.exception("%s: the reward of a grade failed", label)
            result.failures.append(AttemptFailure.of(error, "grade", 1, label))
            result.stop = StopReason.GRADER_ERROR
