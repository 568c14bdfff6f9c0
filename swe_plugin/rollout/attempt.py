"""`Attempt`: one environment, one policy, one episode of a rollout."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from swe_plugin.errors import ContextOverflow, EnvironmentStartError, EnvironmentUnavailable, GraderError
from swe_plugin.grading.patch import Diffable, Patch, extract_patch
from swe_plugin.rollout.hooks import notify
from swe_plugin.rollout.outcome import stop_for
from swe_plugin.scaffolds.base import Episode
from swe_plugin.types import AttemptFailure, Phase, RolloutResult, StopReason, Task, Usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from swe_plugin.environments.base import Environment
    from swe_plugin.grading.baseline import Baseline
    from swe_plugin.policies.base import Policy
    from swe_plugin.rollout.worker import RolloutWorker

__all__ = ["Attempt", "label", "set_up"]

logger = logging.getLogger(__name__)


def label(task: Task, session: int) -> str:
    """What a rollout is called in leases, logs and records."""
    return f"{task.instance_id}@{session}"


async def set_up(worker: RolloutWorker, task: Task, environment: Environment) -> Baseline | None:
    """What has to be known of an environment before its agent starts, within ``swe.environment.setup_timeout_s``.

    Raises:
        EnvironmentStartError: the time is over.
        PatchError, EnvironmentUnavailable: see `record_baseline`.
    """
    if isinstance(environment, Diffable):
        return None
    limit = worker.config.environment.setup_timeout_s
    deadline = asyncio.timeout(limit)
    try:
        async with deadline:
            return await worker.baselines.get(task, environment)
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise EnvironmentStartError(f"the baseline was not recorded within {limit:g} s") from error


class Attempt:
    """Fills `result` with what it comes to; what an earlier attempt left there of its own is overwritten.

    Args:
        worker: whose environments, scaffold and settings are used.
        result: of the rollout; its times and failures are added to.
        number: of the attempt, from 1.

    Attributes:
        number: of the attempt.
        phase: ``start``, ``setup``, ``agent`` or ``patch``: where it is, or was when it failed.
        episode: what the agent did so far.
    """

    def __init__(self, worker: RolloutWorker, result: RolloutResult, number: int) -> None:
        self._worker, self._result, self.number = worker, result, number
        self._label = label(result.task, result.session)
        self._policy: Policy | None = None
        self.phase = "start"
        self.episode = Episode()

    async def run(self, policy_factory: Callable[[], Policy]) -> StopReason:
        """Run it, grading left out; returns why it ended. Only a cancellation is raised."""
        result = self._result
        result.patch, result.flags, result.environment = "", (), None
        asked, since = time.perf_counter(), time.time()
        try:
            async with self._worker.pool.lease(self._worker.spec(result.task, self._label)) as lease:
                self._add("wait", lease.wait_s)
                self._add("start", lease.start_s)
                result.phases.append(Phase("wait", since, lease.wait_s))
                result.phases.append(Phase("start", lease.began, lease.start_s + lease.hidden_s))
                if lease.hidden_s:
                    self._add("hidden", lease.hidden_s)
                result.stop = await self._in_environment(lease.environment, policy_factory)
        except Exception as error:
            if self.phase == "start":
                self._add("start", time.perf_counter() - asked)
                result.phases.append(Phase("start", since, time.perf_counter() - asked))
            result.stop = self._stop_for(error)
            result.failures.append(AttemptFailure.of(error, self.phase, self.number, self._label, result.stop))
            logger.warning("%s (%s)", result.failures[-1], result.stop)
        finally:
            self._tell()
        return result.stop

    def _tell(self) -> None:
        """Put what the agent did into the result."""
        result, episode = self._result, self.episode
        result.phases += episode.phases
        self._add("generate", episode.generate_s)
        self._add("exec", episode.exec_s)
        result.messages, result.turns = episode.messages, episode.turns
        result.n_format_errors, result.notes = episode.n_format_errors, episode.notes
        if self._policy is not None:
            result.segments = list(self._policy.segments)
            result.usage = dict(getattr(self._policy, "usage", {}))
            result.request_id = getattr(self._policy, "request_id", "")  # only policies that keep a journal have one

    async def _in_environment(self, environment: Environment, policy_factory: Callable[[], Policy]) -> StopReason:
        self.phase = "setup"
        with self._timed("start"):
            baseline = await set_up(self._worker, self._result.task, environment)
        notify(self._worker.plugins.manager, "swe_rollout_started", task=self._result.task, environment=environment)
        self.phase = "agent"
        self._policy = policy_factory()
        stop = await self._episode_in_time(environment, self._policy)
        self.phase = "patch"
        self._result.environment = await self._used(environment)
        with self._timed("patch"):
            patch = await self._extract(environment, baseline)
        self._result.patch, self._result.flags = patch.text, patch.flags
        return stop

    async def _used(self, environment: Environment) -> Usage | None:
        try:
            return await environment.usage()
        except Exception:  # a number for the record must not cost the rollout; if it is dead, the patch will say so
            logger.warning("%s: what its environment used is not known", self._label, exc_info=True)
            return None

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
                self._result.failures.append(AttemptFailure.of(error, "patch", number, self._label))
            if number == settings.max_attempts - 1:
                healthy = await self._readable_elsewhere(baseline)
        return Patch("", ("patch_unreadable",))

    async def _readable_elsewhere(self, baseline: Baseline) -> bool:
        """Whether an untouched environment can be read here and now: then what cannot be is its agent's doing."""
        spec = self._worker.spec(self._result.task, f"{self._label}-control-grade")
        try:
            async with self._worker.pool.lease(spec, purpose="grading") as lease:
                await extract_patch(lease.environment, baseline)
        except Exception as error:
            self._result.failures.append(AttemptFailure.of(error, "control", 1, self._label))
            return False
        return True

    async def _episode_in_time(self, environment: Environment, policy: Policy) -> StopReason:
        limit = self._worker.config.scaffold.wall_clock_s
        stop = StopReason.WALL_CLOCK
        deadline = asyncio.timeout(limit)
        try:
            async with deadline:
                stop = await self._worker.scaffold.run(self._result.task, environment, policy, self.episode)
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
        if self.phase in ("start", "setup") and stop in (StopReason.SCAFFOLD_ERROR, StopReason.GRADER_ERROR):
            return StopReason.ENVIRONMENT_START  # an image whose baseline cannot be recorded, a backend's bug
        if self.phase == "patch" and stop is StopReason.SCAFFOLD_ERROR:
            return StopReason.GRADER_ERROR
        return stop

    def _add(self, phase: str, seconds: float) -> None:
        timings = self._result.timings
        timings[phase] = timings.get(phase, 0.0) + seconds

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        since, began = time.time(), time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - began
            self._add(phase, seconds)
            self._result.phases.append(Phase(phase, since, seconds))
