"""Where environments come from: `EnvironmentPool` starts them within a node's capacities."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from swe_plugin.environments.base import Environment, EnvironmentSpec
from swe_plugin.environments.lease import Lease
from swe_plugin.environments.parking import Parking, Ready
from swe_plugin.environments.slot_queue import SlotQueue
from swe_plugin.environments.start import STOP_TIMEOUT_S, make, start_in_time, to_the_end

__all__ = ["STOP_TIMEOUT_S", "EnvironmentPool", "Lease", "Slots"]


@dataclass(frozen=True, slots=True)
class Slots:
    """Capacities of one pool. `running` and `grading` are separate, so that neither starves the other."""

    start: int = 4
    running: int = 256
    grading: int = 4


class EnvironmentPool:
    """Starts single-use environments, some of them ahead of time, and guarantees that each is stopped.

    Args:
        factory: builds an unstarted environment of the chosen backend from a spec.
        slots: capacities. What was started ahead of time holds a slot of `running` until it is used; it goes as
            soon as somebody else needs the slot.
    """

    def __init__(self, factory: Callable[[EnvironmentSpec], Environment], slots: Slots) -> None:
        self._factory = factory
        self._start = SlotQueue(slots.start)
        self._use = {"running": SlotQueue(slots.running), "grading": SlotQueue(slots.grading)}
        self._parking = Parking(factory, self._start, self._use["running"])
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
        """Start environments that will be leased soon, wherever that delays nobody.

        Args:
            wanted: the specs, labels included, that later leases will ask for, in that order, and for each what to do
                once it has started. They stay until they are leased, their slot is needed, or `close`.
        """
        self._parking.want(wanted)

    @asynccontextmanager
    async def lease(self, spec: EnvironmentSpec, *, purpose: str = "running") -> AsyncIterator[Lease]:
        """Start an environment, or hand one out that was started ahead; stop it when the block ends, however it ends.

        Args:
            spec: what to start.
            purpose: which capacity it draws from, ``running`` or ``grading``.

        Raises:
            EnvironmentStartError: it did not become ready.
            ValueError: no such purpose.
        """
        if purpose not in self._use:
            raise ValueError(f"purpose={purpose!r}: must be one of {', '.join(self._use)}")
        slots = self._use[purpose]
        lease = await self._parking.take(spec) if purpose == "running" else None
        if lease is None:
            lease = await self._started(spec, slots)
        self._in_use += 1
        try:
            yield lease
        finally:
            self._in_use -= 1
            try:
                await to_the_end(lease.environment.stop())
            finally:
                slots.release()

    async def close(self) -> None:
        """Stop what was started ahead of time. Idempotent."""
        await self._parking.close()

    async def _started(self, spec: EnvironmentSpec, slots: SlotQueue) -> Lease:
        asked = time.perf_counter()
        self._parking.make_room(slots)
        await slots.acquire()
        try:
            environment = make(self._factory, spec)
            try:
                await self._start.acquire()
                try:
                    began, since = time.perf_counter(), time.time()
                    await start_in_time(environment, spec)
                finally:
                    self._start.release()
            except BaseException:
                await to_the_end(environment.stop())
                raise
        except BaseException:
            slots.release()
            raise
        return Lease(environment, began - asked, time.perf_counter() - began, began=since)
