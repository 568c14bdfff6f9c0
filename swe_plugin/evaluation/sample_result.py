"""`SampleResult`: what an evaluation keeps of one rollout, a line of ``results.jsonl``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swe_plugin.evaluation.samples import Sample
from swe_plugin.types import RolloutResult, StopReason

__all__ = ["SampleResult"]


@dataclass(frozen=True, slots=True)
class SampleResult:
    """One sample.

    Attributes:
        instance_id, session: which one.
        repo: of the task.
        digest: `Sample.digest`.
        stop: why the rollout ended.
        resolved: whether the patch passed; None: there is no verdict, which is not the same as no.
        reward: None where there is no verdict.
        flags: of patch, commands and grade.
        error: the last failure of infrastructure, where there is no verdict.
        patch: what was graded, or would have been.
        model: who made the patch.
        seconds: wall-clock time of the rollout.
        turns: answers of the policy.
        usage: what the policy used, e.g. ``prompt_tokens``, ``cost_usd``.
        record: directory of the rollout's record, relative to the evaluation's; empty: none was written.
    """

    instance_id: str
    session: int
    repo: str
    digest: str
    stop: StopReason
    resolved: bool | None
    reward: float | None
    flags: tuple[str, ...] = ()
    error: str = ""
    patch: str = ""
    model: str = ""
    seconds: float = 0.0
    turns: int = 0
    usage: Mapping[str, float] = field(default_factory=dict)
    record: str = ""

    @property
    def key(self) -> tuple[str, int]:
        """Instance id and session."""
        return self.instance_id, self.session

    @property
    def failed(self) -> bool:
        """Infrastructure failed: no verdict, and nobody decided that there should be none."""
        return self.resolved is None and self.stop is not StopReason.DISHONEST

    @classmethod
    def of(
        cls, sample: Sample, result: RolloutResult, *, voided: bool, model: str, record: Path | None
    ) -> SampleResult:
        """What is kept of `result`.

        Args:
            sample: what was run.
            result: what came of it.
            voided: its flags make it worth nothing (``swe.grading.honesty``, ``zero``).
            model: who answered.
            record: where it is recorded, relative to the evaluation.
        """
        verdict = result.reward is not None and result.grade is not None
        return cls(
            instance_id=result.task.instance_id,
            session=result.session,
            repo=result.task.repo,
            digest=sample.digest,
            stop=result.stop,
            resolved=(result.grade.resolved and not voided) if verdict and result.grade else None,
            reward=result.reward,
            flags=result.flags,
            error="" if verdict or not result.failures else result.failures[-1].error,
            patch=result.patch,
            model=sample.model or model,
            seconds=round(result.timings.get("total", 0.0), 3),
            turns=len(result.turns),
            usage=dict(result.usage),
            record=str(record) if record else "",
        )

    def to_json(self) -> dict[str, Any]:
        """A plain object; inverse of `from_json`."""
        return dataclasses.asdict(self) | {"stop": str(self.stop)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SampleResult:
        """Inverse of `to_json`.

        Raises:
            ValueError: keys are missing or unknown, or there is no such stop reason.
        """
        try:
            return cls(**{**data, "stop": StopReason(data["stop"]), "flags": tuple(data["flags"])})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a result: {error}") from error
