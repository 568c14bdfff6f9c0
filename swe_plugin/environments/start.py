"""Starting an environment within its time, and stopping it whatever happens to the caller."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from swe_plugin.errors import EnvironmentStartError, SwePluginError

if TYPE_CHECKING:
    from swe_plugin.environments.base import Environment, EnvironmentSpec

__all__ = [
    "STOP_TIMEOUT_S",
    "dropped",
    "launch_in_time",
    "make",
    "prepare_in_time",
    "settled",
    "start_in_time",
    "to_the_end",
]

logger = logging.getLogger(__name__)

STOP_TIMEOUT_S = 30.0
"""A stop that takes longer is given up and left to the reaper (`environments.leases`)."""


def make(factory: Callable[[EnvironmentSpec], Environment], spec: EnvironmentSpec) -> Environment:
    """An unstarted environment.

    Raises:
        EnvironmentStartError: the backend raised what no backend means to raise.
    """
    try:
        return factory(spec)
    except SwePluginError:
        raise
    except Exception as error:
        raise _bug_of(factory, spec, error) from error


async def start_in_time(environment: Environment, spec: EnvironmentSpec) -> None:
    """Have the image within ``spec.limits.image_timeout_s``, then start within ``start_timeout_s``.

    Raises:
        EnvironmentStartError: one was not ready by then, or the backend raised what no backend means to raise.
    """
    await prepare_in_time(environment, spec)
    await launch_in_time(environment, spec)


async def launch_in_time(environment: Environment, spec: EnvironmentSpec) -> None:
    """The second half of `start_in_time`."""
    await _in_time(environment.start(), spec, "not ready", spec.limits.start_timeout_s, type(environment))


async def prepare_in_time(environment: Environment, spec: EnvironmentSpec) -> None:
    """The first half of `start_in_time`."""
    await _in_time(environment.prepare(), spec, "image not ready", spec.limits.image_timeout_s, type(environment))


async def _in_time(
    work: Coroutine[Any, Any, None], spec: EnvironmentSpec, what: str, limit: float, backend: object
) -> None:
    try:
        async with asyncio.timeout(limit):
            await work
    except TimeoutError as error:
        raise EnvironmentStartError(f"{spec.label}: {what} after {limit:g} s") from error
    except SwePluginError:
        raise
    except Exception as error:
        raise _bug_of(backend, spec, error) from error


def _bug_of(backend: object, spec: EnvironmentSpec, error: Exception) -> EnvironmentStartError:
    """An error that no backend means to raise says whose it is: a message like ``'name'`` alone tells nobody."""
    name = f"{getattr(backend, '__module__', '')}:{getattr(backend, '__qualname__', backend)}"
    return EnvironmentStartError(f"{spec.label}: backend {name} raised {type(error).__name__}: {error}")


async def to_the_end(stop: Coroutine[Any, Any, None]) -> None:
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


async def settled(task: asyncio.Future[Any]) -> None:
    """Wait until `task` has ended; cancelling the caller does not cut this short."""
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([task])


async def dropped(task: asyncio.Future[Any]) -> None:
    """Cancel `task` and wait until it has ended; how, nobody asks any more."""
    task.cancel()
    await settled(task)
    if not task.cancelled():
        task.exception()
