"""What an evaluation proves: numbers with intervals, and beside each what has no verdict."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from swe_plugin.evaluation.estimate import METHOD, Estimate, estimate
from swe_plugin.evaluation.pass_at_k import pass_at_k
from swe_plugin.evaluation.sample_result import SampleResult
from swe_plugin.evaluation.samples import Sample

__all__ = ["Score", "Summary", "summarize"]

_FORMULA = "unbiased: 1 - C(n-c, k) / C(n, k) per task (Chen et al. 2021), over samples with a verdict"


@dataclass(frozen=True, slots=True)
class Score:
    """Numbers of all tasks, or of one repository.

    Attributes:
        tasks: tasks that were to be attempted.
        samples: attempts that were to be made.
        graded: those with a verdict: the only ones that any rate is over.
        passed: those of them that resolve their task.
        failed: attempts without a verdict because infrastructure failed.
        left_out: attempts without one because ``swe.grading.honesty`` drops them.
        pending: attempts that were not made, or not to their end.
        reward: mean of the graded ones; None without any.
        pass_at: k -> estimate over the tasks that have k verdicts; None without any.
        short: k -> tasks that have some verdicts or none, but fewer than k, and are not in it.
    """

    tasks: int
    samples: int
    graded: int
    passed: int
    failed: int
    left_out: int
    pending: int
    reward: float | None
    pass_at: dict[int, Estimate | None]
    short: dict[int, int]

    @property
    def failure_rate(self) -> float | None:
        """Share of the attempts made that failed on infrastructure; None before the first."""
        made = self.graded + self.failed + self.left_out
        return self.failed / made if made else None


@dataclass(frozen=True, slots=True)
class Summary:
    """The table.

    Attributes:
        total: all tasks.
        repositories: by name.
        failures: stop reason -> attempts without a verdict.
        flags: flag -> attempts.
        usage: sums over attempts, and ``seconds`` of rollouts.
        unpredicted: tasks of the dataset for which no prediction was given.
    """

    total: Score
    repositories: dict[str, Score]
    failures: dict[str, int] = field(default_factory=dict)
    flags: dict[str, int] = field(default_factory=dict)
    usage: dict[str, float] = field(default_factory=dict)
    unpredicted: int = 0

    def to_json(self) -> dict[str, Any]:
        """The object of ``report.json``."""
        data = dataclasses.asdict(self)
        data["total"] = _score_json(self.total)
        data["repositories"] = {name: _score_json(score) for name, score in self.repositories.items()}
        return {**data, "pass_at_k": _FORMULA, "interval": METHOD}


def summarize(
    samples: Sequence[Sample], results: Iterable[SampleResult | None], ks: Sequence[int], *, unpredicted: int = 0
) -> Summary:
    """The numbers of what was to be run and what came of it.

    Args:
        samples: all of them.
        results: of each sample, in the same order; None where there is none.
        ks: of pass@k, each at least 1.
        unpredicted: see `Summary`.
    """
    pairs = list(zip(samples, results, strict=True))
    by_repo: dict[str, list[tuple[Sample, SampleResult | None]]] = defaultdict(list)
    for pair in pairs:
        by_repo[pair[0].task.repo or "-"].append(pair)
    made = [result for _, result in pairs if result is not None]
    usage: Counter[str] = Counter()
    for result in made:
        usage.update({**result.usage, "seconds": result.seconds})
    return Summary(
        total=_score(pairs, ks),
        repositories={name: _score(by_repo[name], ks) for name in sorted(by_repo)},
        failures=dict(Counter(str(result.stop) for result in made if result.resolved is None).most_common()),
        flags=dict(Counter(flag for result in made for flag in result.flags).most_common()),
        usage={name: round(amount, 6) for name, amount in usage.items()},
        unpredicted=unpredicted,
    )


def _score(pairs: Sequence[tuple[Sample, SampleResult | None]], ks: Sequence[int]) -> Score:
    verdicts: dict[str, list[bool]] = {sample.task.instance_id: [] for sample, _ in pairs}
    made = [result for _, result in pairs if result is not None]
    graded = [result for result in made if result.resolved is not None]
    for result in graded:
        verdicts[result.instance_id].append(bool(result.resolved))
    rewards = [result.reward for result in graded if result.reward is not None]
    failed = sum(result.failed for result in made)
    return Score(
        tasks=len(verdicts),
        samples=len(pairs),
        graded=len(graded),
        passed=sum(bool(result.resolved) for result in graded),
        failed=failed,
        left_out=len(made) - len(graded) - failed,
        pending=len(pairs) - len(made),
        reward=sum(rewards) / len(rewards) if rewards else None,
        pass_at={k: _pass_at(verdicts, k) for k in ks},
        short={k: sum(len(found) < k for found in verdicts.values()) for k in ks},
    )


def _pass_at(verdicts: dict[str, list[bool]], k: int) -> Estimate | None:
    enough = [found for found in verdicts.values() if len(found) >= k]
    return estimate([pass_at_k(len(found), sum(found), k) for found in enough], sum(map(len, enough)), k)


def _score_json(score: Score) -> dict[str, Any]:
    return dataclasses.asdict(score) | {"failure_rate": score.failure_rate}
