"""`RolloutWorker`: runs rollouts and turns whatever happens into a `RolloutResult`."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Coroutine
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from swe_plugin.environments.share import Share, acting_for
from swe_plugin.errors import ContextOverflow, EnvironmentUnavailable, GraderError
from swe_plugin.grading.patch import Diffable, Patch, extract_patch
from swe_plugin.rollout.assessor import Assessor, attempt_failure
from swe_plugin.rollout.hooks import notify
from swe_plugin.rollout.outcome import Retry, outcome, stop_for
from swe_plugin.scaffolds.base import Episode
from swe_plugin.types import AttemptFailure, Phase, RolloutResult, StopReason, Task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from swe_plugin.config import SweConfig
    from swe_plugin.environments.base import Environment, EnvironmentSpec
    from swe_plugin.environments.pool import EnvironmentPool
    from swe_plugin.grading.baseline import Baseline, BaselineStore
    from swe_plugin.grading.cache import GradeCache
    from swe_plugin.grading.judge import Judge
    from swe_plugin.plugins import Plugins
    from swe_plugin.policies.base import Policy
    from swe_plugin.scaffolds.base import Scaffold
    from swe_plugin.trajectories.store import TrajectoryStore

__all__ = ["PolicyFactory", "RolloutWorker"]

logger = logging.getLogger(__name__)

_HERE = f"{socket.gethostname()}:{os.getpid()}"

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
        backoff_s: pause before a second attempt, doubled for each further one.
    """

    config: SweConfig
    plugins: Plugins
    pool: EnvironmentPool
    spec: Callable[[Task, str], EnvironmentSpec]
    scaffold: Scaffold
    baselines: BaselineStore
    assessor: Assessor
    store: TrajectoryStore | None = None
    backoff_s: float = 0.5
    _running: set[asyncio.Task[object]] = field(default_factory=set)

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
        return await self._followed(self._run(task, session, policy_factory, may_retry), task, session, step, phase)

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
        return await self._followed(self._judged(task, session, patch), task, session, step, phase)

    async def _followed(
        self, work: Coroutine[Any, Any, RolloutResult], task: Task, session: int, step: int, phase: str
    ) -> RolloutResult:
        """Wait for `work`, record its result and tell the plugins, also if it is cancelled."""
        if phase not in ("train", "val"):
            work.close()
            raise ValueError(f"phase={phase!r}: must be train or val")
        current = asyncio.current_task()
        if current is not None:
            self._running.add(current)
        try:
            with acting_for(Share(phase)):
                result = await work
            await self._record(result, step, phase)
        except asyncio.CancelledError:
            ended = RolloutResult(task, session, StopReason.CANCELLED)
            notify(self.plugins.manager, "swe_rollout_finished", result=ended)
            raise
        finally:
            if current is not None:
                self._running.discard(current)
        notify(self.plugins.manager, "swe_rollout_finished", result=result)
        return result

    def prewarm(self, wanted: Iterable[tuple[Task, int]]) -> None:
        """Start the environments of rollouts that will be asked for soon, wherever that delays nobody.

        Args:
            wanted: tasks and how many rollouts of each, in the order in which they will be asked for.
        """
        self.pool.prewarm(
            (self.spec(task, _label(task, session)), partial(self._set_up, task))
            for task, sessions in wanted
            for session in range(sessions)
        )

    async def close(self) -> None:
        """Cancel what still runs and wait until its environments are gone. Idempotent."""
        tasks = [task for task in self._running if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.scaffold.close()
        await self.pool.close()

    async def _set_up(self, task: Task, environment: Environment) -> Baseline | None:
        """What has to be known of an environment before its agent starts."""
        return None if isinstance(environment, Diffable) else await self.baselines.get(task, environment)

    async def _run(
        self, task: Task, session: int, policy_factory: PolicyFactory, may_retry: Callable[[], bool]
    ) -> RolloutResult:
        began = time.perf_counter()
        failures: list[AttemptFailure] = []
        phases: list[Phase] = []
        timings: dict[str, float] = {}
        for number in range(1, self.config.failure.max_attempts + 1):
            attempt = _Attempt(self, task, session, number, timings, failures, phases)
            result = await attempt.run(policy_factory)
            last = number == self.config.failure.max_attempts
            if outcome(result.stop).retry is not Retry.FRESH or last or not may_retry():
                break
            await asyncio.sleep(self.backoff_s * 2 ** (number - 1))
        if outcome(result.stop).grade:
            await self.assessor.assess(result, _label(task, session))
        timings["total"] = time.perf_counter() - began
        return result

    async def _judged(self, task: Task, session: int, patch: str) -> RolloutResult:
        began = time.perf_counter()
        result = RolloutResult(task, session, StopReason.SUBMITTED, patch=patch)
        if len(patch.encode(errors="surrogateescape")) > self.config.grading.max_patch_bytes:
            result.patch, result.flags = "", ("patch_too_large",)
        await self.assessor.assess(result, _label(task, session), foreign=True)
        result.timings["total"] = time.perf_counter() - began
        return result

    async def _record(self, result: RolloutResult, step: int, phase: str) -> None:
        if self.store is None:
            return
        try:
            await self.store.save(result, step=step, phase=phase)
        except Exception:  # a full disk must not cost the rollout
            logger.exception("%s: its trajectory could not be written", _label(result.task, result.session))


class _Attempt:
    """One environment, one policy, one episode."""

    def __init__(
        self,
        worker: RolloutWorker,
        task: Task,
        session: int,
        number: int,
        timings: dict[str, float],
        failures: list[AttemptFailure],
        phases: list[Phase],
    ) -> None:
        self._worker, self._task, self._number = worker, task, number
        self._timings, self._failures = timings, failures
        self._phase = "start"
        self._episode = Episode()
        self._policy: Policy | None = None
        self._result = RolloutResult(
            task,
            session,
            StopReason.SCAFFOLD_ERROR,
            timings=timings,
            phases=phases,
            worker=_HERE,
            failures=failures,
        )

    async def run(self, policy_factory: PolicyFactory) -> RolloutResult:
        """The attempt's result, not yet graded."""
        result = self._result
        label = _label(self._task, result.session)
        asked, since = time.perf_counter(), time.time()
        try:
            async with self._worker.pool.lease(self._worker.spec(self._task, label)) as lease:
                self._add("wait", lease.wait_s)
                self._add("start", lease.start_s)
                result.phases.append(Phase("wait", since, lease.wait_s))
                result.phases.append(Phase("start", lease.began, lease.start_s + lease.hidden_s))
                if lease.hidden_s:
                    self._add("hidden", lease.hidden_s)
                result.stop = await self._in_environment(lease.environment, policy_factory)
        except Exception as error:
            if self._phase == "start":
                self._add("start", time.perf_counter() - asked)
                result.phases.append(Phase("start", since, time.perf_counter() - asked))
            result.stop = self._stop_for(error)
            self._failures.append(attempt_failure(self._phase, self._number, error, result.stop))
            logger.warning("%s: attempt %d: %s: %s", label, self._number, result.stop, self._failures[-1].error)
        finally:
            result.phases += self._episode.phases
            self._add("generate", self._episode.generate_s)
            self._add("exec", self._episode.exec_s)
        result.messages, result.turns = self._episode.messages, self._episode.turns
        result.n_format_errors, result.notes = self._episode.n_format_errors, self._episode.notes
        if self._policy is not None:
            result.segments = list(self._policy.segments)
            result.usage = dict(getattr(self._policy, "usage", {}))
            result.request_id = getattr(self._policy, "request_id", "")  # only policies that keep a journal have one
        return result

    async def _in_environment(self, environment: Environment, policy_factory: PolicyFactory) -> StopReason:
        with self._timed("start"):
            baseline = await self._worker._set_up(self._task, environment)
        notify(self._worker.plugins.manager, "swe_rollout_started", task=self._task, environment=environment)
        self._phase = "agent"
        self._policy = policy_factory()
        stop = await self._episode_in_time(environment, self._policy)
        self._phase = "patch"
        with self._timed("patch"):
            patch = await self._extract(environment, baseline)
        self._result.patch, self._result.flags = patch.text, patch.flags
        return stop

    async def _extract(self, environment: Environment, baseline: Baseline | None) -> Patch:
        if isinstance(environment, Diffable):
            return Patch(environment.diff())
        assert baseline is not None
        settings = self._worker.config.grading
        healthy = False
        for number in range(1, settings.max_attempts + 1):
            try:
                return await extract_patch(environment, baseline, max_bytes=settings.max_patch_bytes)
            except GraderError as error:
                if number == settings.max_attempts and not healthy:
                    raise
                self._failures.append(attempt_failure("patch", number, error))
            if number == settings.max_attempts - 1:
                healthy = await self._readable_elsewhere(baseline)
        return Patch("", ("patch_unreadable",))

    async def _readable_elsewhere(self, baseline: Baseline) -> bool:
        """Whether an untouched environment can be read here and now: then what cannot be is its agent's doing."""
        spec = self._worker.spec(self._task, f"{_label(self._task, self._result.session)}-control-grade")
        try:
            async with self._worker.pool.lease(spec, purpose="grading") as lease:
                await extract_patch(lease.environment, baseline)
        except Exception as error:
            self._failures.append(attempt_failure("control", 1, error))
            return False
        return True

    async def _episode_in_time(self, environment: Environment, policy: Policy) -> StopReason:
        limit = self._worker.config.scaffold.wall_clock_s
        stop = StopReason.WALL_CLOCK
        deadline = asyncio.timeout(limit)
        try:
            async with deadline:
                stop = await self._worker.scaffold.run(self._task, environment, policy, self._episode)
        except ContextOverflow:
            stop = StopReason.CONTEXT_FULL
        except TimeoutError:
            if not deadline.expired():
                raise
        if stop is StopReason.WALL_CLOCK and not await environment.is_alive():
            raise EnvironmentUnavailable("the environment died under the agent and nothing else was heard of it")
        return stop

    def _stop_for(self, error: Exception) -> StopReason:
        """The stop reason of `error`; what has no reason of its own belongs to the phase in which it was raised."""
        stop = stop_for(error)
        if self._phase == "start" and stop in (StopReason.SCAFFOLD_ERROR, StopReason.GRADER_ERROR):
            return StopReason.ENVIRONMENT_START  # an image whose baseline cannot be recorded, a backend's bug
        if self._phase == "patch" and stop is StopReason.SCAFFOLD_ERROR:
            return StopReason.GRADER_ERROR
        return stop

    def _add(self, phase: str, seconds: float) -> None:
        self._timings[phase] = self._timings.get(phase, 0.0) + seconds

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        since, began = time.time(), time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - began
            self._add(phase, seconds)
            self._result.phases.append(Phase(phase, since, seconds))


def _label(task: Task, session: int) -> str:
    return f"{task.instance_id}@{session}"
