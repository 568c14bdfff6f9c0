"""Where environments come from: `EnvironmentPool` starts them within a node's capacities."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from swe_plugin.environments.base import Environment, EnvironmentSpec
from swe_plugin.errors import EnvironmentStartError, SwePluginError

__all__ = ["STOP_TIMEOUT_S", "EnvironmentPool", "Lease", "Slots"]

logger = logging.getLogger(__name__)

STOP_TIMEOUT_S = 30.0
"""A stop that takes longer is given up and left to the reaper (`environments.leases`)."""


@dataclass(frozen=True, slots=True)
class Slots:
    """Capacities of one pool. `running` and `grading` are separate, so that neither starves the other."""

    start: int = 4
    running: int = 256
    grading: int = 4


@dataclass(slots=True)
class Lease:
    """A started environment and what it cost: seconds waited for a slot, seconds to start."""

    environment: Environment
    wait_s: float
    start_s: float


class EnvironmentPool:
    """Starts single-use environments and guarantees that each is stopped.

    Args:
        factory: builds an unstarted environment of the chosen backend from a spec.
        slots: capacities.
    """

    def __init__(self, factory: Callable[[EnvironmentSpec], Environment], slots: Slots) -> None:
        self._factory = factory
        self._start = asyncio.Semaphore(slots.start)
        self._use = {"running": asyncio.Semaphore(slots.running), "grading": asyncio.Semaphore(slots.grading)}
        self._in_use = 0

    @property
    def in_use(self) -> int:
        """Environments started and not yet stopped."""
        return self._in_use

    @asynccontextmanager
    async def lease(self, spec: EnvironmentSpec, *, purpose: str = "running") -> AsyncIterator[Lease]:
        """Start an environment; stop it when the block ends, however it ends.

        Args:
            spec: what to start.
            purpose: which capacity it draws from, ``running`` or ``grading``.

        Raises:
            EnvironmentStartError: it did not become ready.
            ValueError: no such purpose.
        """
        if purpose not in self._use:
            raise ValueError(f"purpose={purpose!r}: must be one of {', '.join(self._use)}")
        asked = time.perf_counter()
        async with self._use[purpose]:
            environment = self._made(spec)
            try:
                async with self._start:
                    began = time.perf_counter()
                    await self._start_in_time(environment, spec)
                self._in_use += 1
                try:
                    yield Lease(environment, began - asked, time.perf_counter() - began)
                finally:
                    self._in_use -= 1
            finally:
                await _to_the_end(environment.stop())

    def _made(self, spec: EnvironmentSpec) -> Environment:
        try:
            return self._factory(spec)
        except SwePluginError:
            raise
        except Exception as error:
            raise _bug_of(self._factory, spec, error) from error

    @staticmethod
    async def _start_in_time(environment: Environment, spec: EnvironmentSpec) -> None:
        limit = spec.limits.start_timeout_s
        try:
            async with asyncio.timeout(limit):
                await environment.start()
        except TimeoutError as error:
            raise EnvironmentStartError(f"{spec.label}: not ready after {limit:g} s") from error
        except SwePluginError:
            raise
        except Exception as error:
            raise _bug_of(type(environment), spec, error) from error


def _bug_of(backend: object, spec: EnvironmentSpec, error: Exception) -> EnvironmentStartError:
    """An error that no backend means to raise says whose it is: a message like ``'name'`` alone tells nobody."""
    name = f"{getattr(backend, '__module__', '')}:{getattr(backend, '__qualname__', backend)}"
    return EnvironmentStartError(f"{spec.label}: backend {name} raised {type(error).__name__}: {error}")


async def _to_the_end(stop: Coroutine[Any, Any, None]) -> None:
    """Run `stop` to its end even if the caller is cancelled meanwhile; then pass the cancellation on."""
    task = asyncio.ensure_future(stop)
    cancelled: asyncio.CancelledError | None = None
    deadline = asyncio.get_running_loop().time() + STOP_TIMEOUT_S
    while not task.done():
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0:
            task.cancel()
            logger.error("an environment did not stop within %g s; the reaper will remove it", STOP_TIMEOUT_S)
            break
        try:
            await asyncio.wait([task], timeout=left)
        except asyncio.CancelledError as error:
            cancelled = error
    if task.done() and not task.cancelled() and (failure := task.exception()):
        logger.error("stopping an environment failed; the reaper will remove it", exc_info=failure)
    if cancelled:
        raise cancelled
