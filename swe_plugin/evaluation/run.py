"""`Evaluation`: runs samples, so many at once, until all have a result or somebody stops it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from swe_plugin.evaluation.sample_result import SampleResult
from swe_plugin.grading.honesty import Policy
from swe_plugin.rollout.breaker import CircuitBreaker
from swe_plugin.trajectories.remembering import RememberingStore

if TYPE_CHECKING:
    from pathlib import Path

    from swe_plugin.evaluation.results import Results
    from swe_plugin.evaluation.samples import Sample
    from swe_plugin.rollout.worker import PolicyFactory, RolloutWorker

__all__ = ["Evaluation"]

_STEP, _PHASE = 0, "val"


@dataclass(slots=True)
class Evaluation:
    """One evaluation in this process.

    Attributes:
        worker: runs and grades, as in training.
        results: where each result goes as soon as it is there.
        policy: what makes the policy of a sample's attempts.
        model: who answers, for files of predictions.
        concurrency: samples at once.
        breaker: ends the evaluation if so many samples in a row have no verdict.
        seen: called with each result.
        running: samples that have begun and have no result yet.
        ended: samples that have one.
        draining: no further sample begins.
    """

    worker: RolloutWorker
    results: Results
    policy: Callable[[Sample], PolicyFactory]
    model: str
    concurrency: int
    breaker: CircuitBreaker
    seen: Callable[[SampleResult], None] = lambda result: None
    running: int = 0
    ended: int = 0
    draining: bool = False
    _store: RememberingStore | None = field(default=None)

    def __post_init__(self) -> None:
        if self.worker.store is not None:
            self.worker.store = self._store = RememberingStore(self.worker.store.run_dir)

    async def run(self, samples: Sequence[Sample]) -> None:
        """Run `samples` in their order.

        Raises:
            TooManyFailures: the breaker opened; what ran was stopped.
            OSError: a result could not be written.
            asyncio.CancelledError: somebody cancelled. Either way no environment is left and finished samples are kept.
        """
        todo = iter(samples)
        try:
            async with asyncio.TaskGroup() as lanes:
                for _ in range(min(self.concurrency, len(samples))):
                    lanes.create_task(self._lane(todo))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    def drain(self) -> None:
        """Let what runs come to its end and begin nothing more."""
        self.draining = True

    async def _lane(self, todo: Iterator[Sample]) -> None:
        for sample in todo:
            if self.draining:
                return
            self.running += 1
            try:
                result = await self._one(sample)
            finally:
                self.running -= 1
            self.results.add(result)
            self.ended += 1
            self.seen(result)
            self.breaker.record(f"{result.stop}: {result.error}" if result.failed else "")
            self.breaker.check()

    async def _one(self, sample: Sample) -> SampleResult:
        task, session = sample.task, sample.session
        if sample.patch is None:
            result = await self.worker.run(task, session, self.policy(sample), step=_STEP, phase=_PHASE)
        else:
            result = await self.worker.grade(task, session, sample.patch, step=_STEP, phase=_PHASE)
        voided = self.worker.assessor.honesty.policy(result.flags) is Policy.ZERO
        return SampleResult.of(sample, result, voided=voided, model=self.model, record=self._record(sample))

    def _record(self, sample: Sample) -> Path | None:
        path = self._store.saved.get(sample.key) if self._store else None
        return path.relative_to(self.results.directory) if path else None
