"""Where environments come from: `EnvironmentPool` starts them within a node's capacities."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from swe_plugin.environments.base import Environment, EnvironmentSpec
from swe_plugin.environments.handover import HandOver
from swe_plugin.environments.lease import Lease
from swe_plugin.environments.parking import Parking, Ready
from swe_plugin.environments.share import Share, acting_for
from swe_plugin.environments.slot_file import SlotFile, pool_directory
from swe_plugin.environments.slot_queue import SlotQueue
from swe_plugin.environments.start import STOP_TIMEOUT_S, make, prepare_in_time, start_in_time, to_the_end
from swe_plugin.errors import EnvironmentStartError

__all__ = ["STOP_TIMEOUT_S", "EnvironmentPool", "Lease", "Slots"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Slots:
    """Capacities of one node, separate so that none starves another. `reserved`: see `SlotQueue`."""

    start: int = 4
    running: int = 256
    grading: int = 4
    reserved: float = 0.0


class EnvironmentPool:
    """Starts single-use environments, some of them ahead of time, and guarantees that each is stopped.

    Args:
        factory: builds an unstarted environment of the chosen backend from a spec.
        slots: capacities. What was started ahead of time holds a slot of `running` until it is used; it goes as
            soon as somebody else needs the slot.
        scope: pools of one scope, in any process of this node, share the capacities and what was started ahead;
            empty: this pool shares with none.
    """

    def __init__(self, factory: Callable[[EnvironmentSpec], Environment], slots: Slots, scope: str = "") -> None:
        self._factory = factory
        directory = pool_directory(scope) if scope else None
        self._file = SlotFile(directory)
        queues = [
            SlotQueue(size, self._file, number, slots.reserved, brief=number == 0)
            for number, size in enumerate((slots.start, slots.running, slots.grading))
        ]
        self._start, self._use = queues[0], {"running": queues[1], "grading": queues[2]}
        self._parking = Parking(factory, self._start, self._use["running"])
        self._hand_over = HandOver(directory, self._parking) if directory else None
        self._asking: set[asyncio.Task[None]] = set()
        self._in_use = 0

    @property
    def in_use(self) -> int:
        """Environments leased now."""
        return self._in_use

    @property
    def parked(self) -> int:
        """Environments that were started, or are being started, ahead of time."""
        return len(self._parking)

    def prewarm(self, wanted: Iterable[tuple[EnvironmentSpec, Ready]]) -> None:
        """Start environments that will be leased soon, here or in another process, wherever that delays nobody.

        Args:
            wanted: the specs, labels included, that later leases will ask for, in that order, and for each what to do
                once it has started. They stay until they are leased, their slot is needed, or `cool`.
        """
        if self._hand_over is not None:
            self._file.open()
            self._hand_over.listen()
        self._parking.want(wanted)

    async def warm_images(self, specs: Iterable[EnvironmentSpec]) -> None:
        """Have the images of `specs` on this node; starts nothing.

        What cannot be had is logged: whoever needs it hears the same, and there it counts.
        """
        with acting_for(Share.AHEAD):
            await asyncio.gather(*map(self._warm_image, {repr(spec.image): spec for spec in specs}.values()))

    async def _warm_image(self, spec: EnvironmentSpec) -> None:
        environment = make(self._factory, spec)
        try:
            with await self._start.acquire():
                await prepare_in_time(environment, spec)
        except EnvironmentStartError:
            logger.warning("%s: cannot be had ahead of time", spec.label, exc_info=True)
        finally:
            await to_the_end(environment.stop())

    @asynccontextmanager
    async def lease(self, spec: EnvironmentSpec, *, purpose: str = "running") -> AsyncIterator[Lease]:
        """Start an environment, or hand one out that was started ahead; stop it when the block ends, however it ends.

        Args:
            spec: what to start.
            purpose: which capacity it draws from, ``running`` or ``grading``; on whose behalf, `current_share` says.

        Raises:
            EnvironmentStartError: it did not become ready.
            ValueError: no such purpose.
        """
        if purpose not in self._use:
            raise ValueError(f"purpose={purpose!r}: must be one of {', '.join(self._use)}")
        lease = await self._parking.take(spec) if purpose == "running" else None
        if lease is None:
            lease = await self._started(spec, purpose)
        with lease.slot:
            try:
                self._count(+1)
                yield lease
            finally:
                self._count(-1)
                await to_the_end(lease.environment.stop())

    async def cool(self) -> None:
        """Stop what was started ahead of time. Idempotent."""
        await self._parking.clear()

    async def close(self) -> None:
        """The same, and no longer be found by other processes. Idempotent."""
        if self._hand_over is not None:
            await self._hand_over.close()
        await self.cool()
        if self._asking:
            await asyncio.wait(self._asking)
        self._file.leave()

    def _count(self, change: int) -> None:
        before, self._in_use = self._in_use, self._in_use + change
        if (before > 0) != (self._in_use > 0):
            try:
                self._start.set_busy(self._in_use > 0)
            except OSError:  # only what is started ahead goes by it
                logger.warning("the node's other processes could not be told", exc_info=True)

    async def _started(self, spec: EnvironmentSpec, purpose: str) -> Lease:
        environment, slot = make(self._factory, spec), None
        try:
            if self._hand_over is not None and purpose == "running":
                lease = await self._hand_over.take(spec, environment)
                if lease is not None:
                    return lease
            asked = time.perf_counter()
            slot = await self._use[purpose].acquire(self._make_room if purpose == "running" else lambda: None)
            with await self._start.acquire():
                began, since = time.perf_counter(), time.time()
                await start_in_time(environment, spec)
        except BaseException:
            await to_the_end(environment.stop())
            if slot is not None:
                slot.release()
            raise
        return Lease(environment, slot, began - asked, time.perf_counter() - began, began=since)

    def _make_room(self) -> None:
        """Somebody waits for a slot: what is parked here gives way, or else what is parked in another process."""
        if not self._parking.give_way() and self._hand_over is not None:
            task = asyncio.ensure_future(self._hand_over.make_room())
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
