"""`RolloutWorker`: runs rollouts and turns whatever happens into a `RolloutResult`."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import socket
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tenacity import AsyncRetrying, retry_if_result, stop_after_attempt, wait_exponential, wait_random

from swe_plugin.environments.share import Share, acting_for
from swe_plugin.rollout.assessor import Assessor
from swe_plugin.rollout.attempt import Attempt, label, set_up
from swe_plugin.rollout.hooks import notify
from swe_plugin.rollout.outcome import Retry, outcome
from swe_plugin.rollout.running import Running
from swe_plugin.types import AttemptFailure, RolloutResult, StopReason, Task

if TYPE_CHECKING:
    from collections.abc import Iterable

    from swe_plugin.config import SweConfig
    from swe_plugin.environments.base import EnvironmentSpec
    from swe_plugin.environments.pool import EnvironmentPool
    from swe_plugin.grading.baseline import BaselineStore
    from swe_plugin.grading.cache import GradeCache
    from swe_plugin.grading.judge import Judge
    from swe_plugin.plugins import Plugins
    from swe_plugin.policies.base import Policy
    from swe_plugin.scaffolds.base import Scaffold
    from swe_plugin.trajectories.live import LiveBoard
    from swe_plugin.trajectories.store import TrajectoryStore

__all__ = ["HERE", "PolicyFactory", "RolloutWorker"]

logger = logging.getLogger(__name__)

_MAX_BACKOFF_S = 30.0
_BOARD_EVERY_S = 1.0
HERE = f"{socket.gethostname()}:{os.getpid()}"
"""This worker, as records name it."""

PolicyFactory = Callable[[], "Policy"]
"""Makes the policy of one attempt; a retry starts with a fresh one."""


@dataclass(slots=True)
class RolloutWorker:
    """Runs rollouts, any number at once, on one event loop. Made by `build.build_rollout_worker`.

    Attributes:
        config: the whole ``swe:`` section.
        plugins: whose event hooks are called.
        pool: where environments come from.
        spec: the environment of a task, given a label.
        scaffold: the agent.
        baselines: recorded baselines by image.
        assessor: how work becomes a reward.
        store: where results are written, or None.
        board: where running rollouts are shown, or None.
        backoff_s: pause before a second attempt, doubled for each further one, up to 30.
    """

    config: SweConfig
    plugins: Plugins
    pool: EnvironmentPool
    spec: Callable[[Task, str], EnvironmentSpec]
    scaffold: Scaffold
    baselines: BaselineStore
    assessor: Assessor
    store: TrajectoryStore | None = None
    board: LiveBoard | None = None
    backoff_s: float = 0.5
    _showing: asyncio.Future[None] | None = None
    _running: dict[asyncio.Task[object], Running] = field(default_factory=dict)

    @property
    def grade_cache(self) -> GradeCache | None:
        """The cache of verdicts, with its hit rate; None if it is switched off."""
        return self.judge.cache

    @property
    def judge(self) -> Judge:
        """How patches become grades."""
        return self.assessor.judge

    async def run(
        self,
        task: Task,
        session: int,
        policy_factory: PolicyFactory,
        *,
        step: int,
        phase: str,
        may_retry: Callable[[], bool] = lambda: True,
    ) -> RolloutResult:
        """Run one rollout to its end, its retries included, and record it.

        Args:
            task: what to attempt.
            session: index of this sample in its group.
            policy_factory: called once per attempt.
            step: trainer step, for the record.
            phase: ``train`` or ``val``.
            may_retry: asked before each retry; says no once the weights have changed.

        Returns:
            The result. A failure is data: its `stop` says which, its `failures` hold every traceback, and its
            reward is None where the failure matrix says that there is no row.

        Raises:
            asyncio.CancelledError: the caller was cancelled; the environment is gone by then.
            ValueError: `phase` is neither.
        """
        running = Running(task, session, step, phase)
        return await self._followed(self._run(running, policy_factory, may_retry), running)

    async def grade(self, task: Task, session: int, patch: str, *, step: int, phase: str) -> RolloutResult:
        """Judge a patch that somebody else made, as if an agent had just submitted it, and record it.

        No agent environment is started. A patch that does not apply is not resolved: nobody here made it, so that
        is no failure of infrastructure.

        Args:
            task: what the patch should solve.
            session: index of this sample in its group.
            patch: unified diff against the task's baseline, possibly empty.
            step, phase: as for `run`.

        Returns, Raises: as `run`.
        """
        return await self._followed(
            self._judged(task, session, patch), Running(task, session, step, phase, grading=True)
        )

    async def _followed(self, work: Coroutine[Any, Any, RolloutResult], running: Running) -> RolloutResult:
        """Wait for `work`, record its result and tell the plugins, also if it is cancelled."""
        if running.phase not in ("train", "val"):
            work.close()
            raise ValueError(f"phase={running.phase!r}: must be train or val")
        current = asyncio.current_task()
        assert current is not None
        self._running[current] = running
        if self.board is not None and (self._showing is None or self._showing.done()):
            self._showing = asyncio.ensure_future(self._show(self.board))
        try:
            with acting_for(Share(running.phase)):
                result = await work
            await self._record(result, running.step, running.phase)
        except asyncio.CancelledError:
            ended = RolloutResult(running.task, running.session, StopReason.CANCELLED)
            notify(self.plugins.manager, "swe_rollout_finished", result=ended)
            raise
        finally:
            del self._running[current]
        notify(self.plugins.manager, "swe_rollout_finished", result=result)
        return result

    def prewarm(self, wanted: Iterable[tuple[Task, int]]) -> None:
        """Start the environments of rollouts that will be asked for soon, wherever that delays nobody.

        Args:
            wanted: tasks and how many rollouts of each, in the order in which they will be asked for.
        """
        self.pool.prewarm(
            (self.spec(task, label(task, session)), partial(set_up, self, task))
            for task, sessions in wanted
            for session in range(sessions)
        )

    async def warm_images(self, tasks: Iterable[Task]) -> None:
        """Build the images of tasks on this node; see `EnvironmentPool.warm_images`."""
        await self.pool.warm_images(self.spec(task, f"{task.instance_id} image") for task in tasks)

    async def close(self) -> None:
        """Cancel what still runs and wait until its environments are gone. Idempotent."""
        tasks = [task for task in self._running if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.scaffold.close()
        if self._showing is not None:
            self._showing.cancel()
            await asyncio.wait([self._showing])
            if self.board is not None:
                self.board.take_down()
        await self.pool.close()

    async def _run(
        self, running: Running, policy_factory: PolicyFactory, may_retry: Callable[[], bool]
    ) -> RolloutResult:
        began, name = time.perf_counter(), label(running.task, running.session)
        result = RolloutResult(running.task, running.session, StopReason.CANCELLED, worker=HERE)
        limit = self.config.failure.rollout_timeout_s
        deadline = asyncio.timeout(limit)
        try:
            async with deadline:
                await self._attempts(running, result, policy_factory, may_retry)
                if outcome(result.stop).grade:
                    running.grading = True
                    await self.assessor.assess(result, name)
        except TimeoutError:
            if not deadline.expired():
                raise
            result.stop, result.reward, result.grade = StopReason.ROLLOUT_TIMEOUT, None, None
            error = TimeoutError(f"swe.failure.rollout_timeout_s={limit:g} is over")
            number = running.attempt.number if running.attempt else 1
            result.failures.append(AttemptFailure.of(error, running.state, number, name, result.stop))
            logger.warning("%s", result.failures[-1])
        result.timings["total"] = time.perf_counter() - began
        return result

    async def _attempts(
        self, running: Running, result: RolloutResult, policy_factory: PolicyFactory, may_retry: Callable[[], bool]
    ) -> None:
        """Attempt until one ends otherwise than by a failure that is worth another."""
        numbers = itertools.count(1)

        async def attempt() -> StopReason:
            running.attempt = Attempt(self, result, next(numbers))
            return await running.attempt.run(policy_factory)

        await AsyncRetrying(
            retry=retry_if_result(lambda stop: outcome(stop).retry is Retry.FRESH and may_retry()),
            stop=stop_after_attempt(self.config.failure.max_attempts),
            wait=wait_exponential(multiplier=self.backoff_s, max=_MAX_BACKOFF_S) + wait_random(0, self.backoff_s),
            retry_error_callback=lambda state: None,  # the last attempt's result stands
        )(attempt)

    async def _judged(self, task: Task, session: int, patch: str) -> RolloutResult:
        began = time.perf_counter()
        result = RolloutResult(task, session, StopReason.SUBMITTED, patch=patch)
        if len(patch.encode(errors="surrogateescape")) > self.config.grading.max_patch_bytes:
            result.patch, result.flags = "", ("patch_too_large",)
        await self.assessor.assess(result, label(task, session), foreign=True)
        result.timings["total"] = time.perf_counter() - began
        return result

    async def _show(self, board: LiveBoard) -> None:
        """Keep the board current for as long as rollouts run; nothing depends on it."""
        while True:
            rows = [running.to_json() for running in self._running.values()]
            try:
                await asyncio.to_thread(board.write, rows)
            except OSError:
                logger.warning("the board of running rollouts could not be written", exc_info=True)
                return
            if not rows:
                return
            await asyncio.sleep(_BOARD_EVERY_S)

    async def _record(self, result: RolloutResult, step: int, phase: str) -> None:
        if self.store is None:
            return
        try:
            await self.store.save(result, step=step, phase=phase)
        except Exception:  # a full disk must not cost the rollout
            logger.exception("%s: its trajectory could not be written", label(result.task, result.session))
