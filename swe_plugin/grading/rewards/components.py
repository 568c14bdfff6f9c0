"""The built-in components: functions ``(result, **options) -> float`` of a rollout that has a grade."""

from __future__ import annotations

from statistics import fmean

from swe_plugin.grading.integrity import met
from swe_plugin.types import RolloutResult, TestStatus

__all__ = ["f2p", "format_", "length", "turns"]


def f2p(result: RolloutResult) -> float:
    """Share of the F2P tests that are as they must be, while all P2P tests still are; else 0."""
    spec, grade = result.task.grading, result.grade
    statuses = grade.statuses if grade else {}

    def holds(test_id: str) -> bool:
        return met(spec, test_id, statuses.get(test_id, TestStatus.MISSING))

    if not all(map(holds, spec.pass_to_pass)):
        return 0.0
    return fmean(map(holds, spec.fail_to_pass)) if spec.fail_to_pass else 1.0


def format_(result: RolloutResult) -> float:
    """Share of the answers in which an action could be read; 1 without an answer."""
    return 1.0 - min(result.n_format_errors / max(_answers(result), 1), 1.0)


def length(result: RolloutResult, *, over: float = 0, per: float = 1000) -> float:
    """Sampled tokens beyond `over`, in units of `per`. A penalty has a negative weight."""
    sampled = sum(sum(segment.mask) for segment in result.segments)
    return max(sampled - over, 0.0) / per


def turns(result: RolloutResult, *, over: float = 0, per: float = 1) -> float:
    """Answers beyond `over`, in units of `per`. A penalty has a negative weight."""
    return max(_answers(result) - over, 0.0) / per


def _answers(result: RolloutResult) -> int:
    return sum(message.role == "assistant" for message in result.messages)
