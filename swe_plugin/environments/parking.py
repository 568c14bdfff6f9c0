"""`Parking`: environments that are started before anybody asks for them, wherever that delays nobody."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from swe_plugin.environments.base import Environment, EnvironmentSpec
from swe_plugin.environments.lease import Lease
from swe_plugin.environments.movable import Movable
from swe_plugin.environments.share import Share, acting_for
from swe_plugin.environments.slot_file import Slot
from swe_plugin.environments.slot_queue import SlotQueue
from swe_plugin.environments.start import launch_in_time, make, prepare_in_time, to_the_end

__all__ = ["Parking", "Ready"]

logger = logging.getLogger(__name__)

Ready = Callable[[Environment], Awaitable[object]]
"""What is still to be done with an environment that has started."""


@dataclass(slots=True, eq=False)
class _Parked:
    """One environment: wanted (no slot yet), starting, or ready."""

    spec: EnvironmentSpec
    ready: Ready
    environment: Environment | None = None
    slot: Slot | None = None
    start_s: float = 0.0
    began: float = 0.0
    task: asyncio.Task[None] = field(init=False)


class Parking:
    """The pool's environments of tomorrow.

    Each holds a slot of the pool from its start on, which goes over to the lease that takes it. It is given up when
    somebody who needs an environment now finds no slot.

    Args:
        factory: builds an unstarted environment from a spec.
        start: slots of starting.
        running: slots of being there.
    """

    def __init__(self, factory: Callable[[EnvironmentSpec], Environment], start: SlotQueue, running: SlotQueue) -> None:
        self._factory, self._start, self._running = factory, start, running
        self._parked: dict[str, list[_Parked]] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return sum(map(len, self._parked.values()))

    def want(self, wanted: Iterable[tuple[EnvironmentSpec, Ready]]) -> None:
        """See `EnvironmentPool.prewarm`."""
        with acting_for(Share.AHEAD):
            for spec, ready in wanted:
                parked = _Parked(spec, ready)
                parked.task = asyncio.ensure_future(self._park(parked))
                parked.task.add_done_callback(lambda _, parked=parked: self._started(parked))  # type: ignore[misc]
                self._parked.setdefault(spec.label, []).append(parked)

    def offers(self, label: str) -> list[EnvironmentSpec]:
        """Specs of what another process may `take` by a label: all but what cannot leave this one."""
        parked = self._parked.get(label, ())
        return [one.spec for one in parked if one.environment is None or isinstance(one.environment, Movable)]

    async def take(self, spec: EnvironmentSpec) -> Lease | None:
        """The environment that was started ahead for `spec`, with its slot; None if the caller has to start one."""
        asked = time.perf_counter()
        parked = next((parked for parked in self._parked.get(spec.label, ()) if parked.spec == spec), None)
        if parked is None:
            return None
        self._forget(parked)
        if parked.environment is None:  # it still waits for a slot, behind everybody who needs one now
            await self._end(parked)
            return None
        try:
            await asyncio.shield(parked.task)
        except asyncio.CancelledError:
            self._leave(parked)
            raise
        except Exception:  # whoever needs it starts it again, and that failure counts
            logger.warning("%s: could not be started ahead of time", spec.label, exc_info=True)
            return None
        waited = time.perf_counter() - asked
        if not await _is_alive(parked.environment):
            logger.warning("%s: died before it was used", spec.label)
            self._leave(parked)
            return None
        assert parked.slot is not None
        return Lease(parked.environment, parked.slot, 0.0, waited, max(parked.start_s - waited, 0.0), parked.began)

    def give_way(self) -> bool:
        """Give up the ready environment that is wanted last, for its slot; whether there was one."""
        ready = next((parked for parked in reversed(self._all()) if parked.task.done()), None)
        if ready is not None:
            self._drop(ready)
        return ready is not None

    async def clear(self) -> None:
        """Stop everything. Idempotent."""
        for parked in self._all():
            self._drop(parked)
        while self._leaving:
            await asyncio.wait(self._leaving)

    async def _park(self, parked: _Parked) -> None:
        """Start one; afterwards it holds one slot of `running`, or the error is raised and it holds nothing."""
        slot = await self._running.acquire()
        try:
            await self._start_one(parked, await self._start.acquire())
        except BaseException:
            slot.release()
            raise
        parked.slot = slot

    async def _start_one(self, parked: _Parked, turn: Slot) -> None:
        parked.began, began = time.time(), time.perf_counter()
        try:
            environment = parked.environment = make(self._factory, parked.spec)
            try:
                await prepare_in_time(environment, parked.spec)
                if (brief := self._start.borrow()) is not None:  # what may take long, an image, is over
                    turn.release()
                    turn = brief
                await launch_in_time(environment, parked.spec)
                await parked.ready(environment)
            except BaseException:
                await to_the_end(environment.stop())
                raise
        finally:
            turn.release()
            parked.start_s = time.perf_counter() - began

    def _started(self, parked: _Parked) -> None:
        if not parked.task.cancelled() and parked.task.exception() is None and self._running.short:
            self.give_way()

    def _all(self) -> list[_Parked]:
        return [parked for some in self._parked.values() for parked in some]

    def _forget(self, parked: _Parked) -> None:
        some = self._parked[parked.spec.label]
        some.remove(parked)
        if not some:
            del self._parked[parked.spec.label]

    def _drop(self, parked: _Parked) -> None:
        self._forget(parked)
        self._leave(parked)

    def _leave(self, parked: _Parked) -> None:
        """End one in the background."""
        task = asyncio.ensure_future(self._end(parked))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _end(self, parked: _Parked) -> None:
        """Stop one in whatever state it is, and give its slot back."""
        parked.task.cancel()
        await asyncio.wait([parked.task])
        if parked.environment is None or parked.slot is None:
            return
        with parked.slot:
            await to_the_end(parked.environment.stop())


async def _is_alive(environment: Environment) -> bool:
    try:
        return await environment.is_alive()
    except Exception:
        logger.warning("a parked environment does not answer", exc_info=True)
        return False
