"""Samples and results as an evaluation has them."""

from __future__ import annotations

from swe_plugin.evaluation.sample_result import SampleResult
from swe_plugin.evaluation.samples import Sample
from swe_plugin.types import StopReason, Task


def task(name: str, repo: str = "calc") -> Task:
    return Task(name, "add subtracts", repo=repo)


def result(sample: Sample, resolved: bool | None, **changes: object) -> SampleResult:
    """A verdict; without one the environment was lost."""
    fields = {
        "instance_id": sample.task.instance_id,
        "session": sample.session,
        "repo": sample.task.repo,
        "digest": sample.digest,
        "stop": StopReason.ENVIRONMENT_LOST if resolved is None else StopReason.SUBMITTED,
        "resolved": resolved,
        "reward": None if resolved is None else float(resolved),
        "seconds": 2.0,
    }
    return SampleResult(**{**fields, **changes})
