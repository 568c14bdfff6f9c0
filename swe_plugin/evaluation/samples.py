"""What an evaluation has to run: `Sample`, one attempt at one task."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from swe_plugin.types import Task

__all__ = ["Sample", "plan", "predicted", "sample_seed"]


@dataclass(frozen=True, slots=True)
class Sample:
    """One attempt.

    Attributes:
        task: what is attempted.
        session: index of the attempt among those at this task, from 0.
        patch: graded as it is; None: an agent makes one.
        model: who made `patch`, where a file of predictions says so.
    """

    task: Task
    session: int
    patch: str | None = None
    model: str = ""

    @property
    def key(self) -> tuple[str, int]:
        """Instance id and session."""
        return self.task.instance_id, self.session

    @property
    def digest(self) -> str:
        """Tells whether a result is that of this task and this patch."""
        content = f"{self.task.to_json()}\n{self.patch or ''}"
        return hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()[:16]


def plan(tasks: Sequence[Task], samples: int) -> list[Sample]:
    """Every task `samples` times: the first attempt of each, then the second, so that what a stopped evaluation has is
    spread over the tasks."""
    return [Sample(task, session) for session in range(samples) for task in tasks]


def predicted(tasks: Sequence[Task], files: Sequence[Mapping[str, tuple[str, str]]]) -> list[Sample]:
    """One sample per prediction; tasks without one have none.

    Args:
        tasks: of the dataset.
        files: per session, instance id -> (patch, model).
    """
    return [
        Sample(task, session, *predictions[task.instance_id])
        for session, predictions in enumerate(files)
        for task in tasks
        if task.instance_id in predictions
    ]


def sample_seed(seed: int, instance_id: str, session: int) -> int:
    """Seed of one sample's sampling, 31 bits: it depends on nothing but these, so neither on order nor on resuming."""
    digest = hashlib.sha256(f"{seed}/{session}/{instance_id}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
