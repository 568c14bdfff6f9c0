"""`SandboxEnvironment`: an environment made of Linux namespaces, without a daemon."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from swe_plugin.environments.base import EnvironmentSpec
from swe_plugin.environments.images import ImageStore, Layers, check_image
from swe_plugin.environments.movable import Parcel
from swe_plugin.environments.sandbox.channel import Channel
from swe_plugin.environments.sandbox.modes import prepare
from swe_plugin.environments.sandbox.owner import (
    TakenSandbox,
    ZygoteProcess,
    borrowed_zygote,
    current_zygote,
    running_zygote,
)
from swe_plugin.environments.sandbox.probe import describe_modes
from swe_plugin.environments.sandbox.settings import check_settings
from swe_plugin.environments.sandbox.zygote.plan import Plan
from swe_plugin.environments.supervised import SupervisedEnvironment
from swe_plugin.errors import ConfigError, EnvironmentStartError, EnvironmentUnavailable
from swe_plugin.types import Image, Usage

if TYPE_CHECKING:
    from swe_plugin.config import EnvironmentConfig

__all__ = ["SandboxEnvironment"]

logger = logging.getLogger(__name__)

_STOP_TIMEOUT_S = 20.0
_ENDING = 64
"""Sandboxes that end at once: a thousand take the kernel seconds, and each has its own time to be gone in."""
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
_INODES_PER_MIB = 64
_MIB, _GIB = 1 << 20, 1 << 30


class SandboxEnvironment(SupervisedEnvironment):
    """One sandbox; see docs/sandbox.md for what it isolates and how.

    ``spec.options``: ``mode`` (``auto``, ``root``, ``rootmap`` or ``user``) and ``open_files``.
    """

    def __init__(self, spec: EnvironmentSpec) -> None:
        super().__init__(spec)
        self._zygote: ZygoteProcess | TakenSandbox | None = None
        self._layers: Layers | None = None
        self._mode = ""
        self._number = 0

    @classmethod
    def check(cls, config: EnvironmentConfig) -> str:
        """Try a sandbox with these settings; see `Environment.check`."""
        options = dict(config.options)
        check_settings(config.memory_mib, config.disk_mib, options)
        with borrowed_zygote():
            try:
                return describe_modes(str(options.get("mode", "auto")))
            except EnvironmentStartError as error:
                raise ConfigError("swe.environment.backend", config.backend, str(error)) from error

    @classmethod
    def check_image(cls, image: Image) -> None:
        """See `Environment.check_image`."""
        check_image(image)

    async def _launch(self) -> None:
        if self._layers is None:
            await self.prepare()
        zygote = running_zygote()
        if zygote is None:
            zygote = await asyncio.to_thread(current_zygote)
        self._zygote, self._number = zygote, zygote.next_number()
        assert self._layers is not None
        plan = self._plan(self._mode, self._layers, zygote)
        ours, theirs = socket.socketpair()
        try:
            self._channel = Channel(ours, self.spec.label)
            await zygote.start(self._number, theirs, self._mode, plan.network)
        finally:
            theirs.close()
        try:
            header, _ = await self._channel.start(plan.to_dict())
        except EnvironmentUnavailable:
            raise self._start_error("the sandbox ended before it was ready") from None
        if "error" in header:
            raise self._start_error(header["error"])

    async def give(self) -> Parcel:
        """See `Movable.give`."""
        zygote, channel = self._zygote, self._open_channel()
        assert isinstance(zygote, ZygoteProcess)
        try:
            control = await zygote.give(self._number)
        except EnvironmentStartError as error:
            raise EnvironmentUnavailable(str(error)) from error
        state = {"number": self._number, "first_id": channel.next_id(), "lease": zygote.lease.id}
        self._channel = None
        stream = channel.detach()
        return Parcel(state, [stream, control.detach(), zygote.lease.share()])

    async def take(self, parcel: Parcel) -> None:
        """See `Movable.take`. Its image is held here before it may be let go there."""
        self._used = True
        await self.prepare()
        self._number = parcel.state["number"]
        lease = parcel.lease()
        self._zygote = TakenSandbox(socket.socket(fileno=parcel.descriptors.pop()), lease)
        stream = socket.socket(fileno=parcel.descriptors.pop())
        self._channel = Channel(stream, self.spec.label, first_id=parcel.state["first_id"])

    async def prepare(self) -> None:
        """Find the mode, have the image and hold it; `stop` lets it go."""
        preparing = asyncio.ensure_future(asyncio.to_thread(self._hold_image))
        try:
            self._mode, self._layers = await asyncio.shield(preparing)
        except asyncio.CancelledError:
            preparing.add_done_callback(_release_late)
            raise
        except EnvironmentStartError as error:
            raise self._start_error(str(error)) from error

    def _hold_image(self) -> tuple[str, Layers]:
        """What blocks: find the mode, build the image. Both are remembered for the next time."""
        store = ImageStore(budget_bytes=int(self.spec.image_cache_gib * _GIB))
        return prepare(self.spec.image, str(self.spec.options.get("mode", "auto")), store, env=self.spec.env)

    def _plan(self, mode: str, layers: Layers, zygote: ZygoteProcess) -> Plan:
        spec, limits = self.spec, self.spec.limits
        try:
            check_settings(limits.memory_mib, limits.disk_mib, spec.options)
        except ConfigError as error:
            raise self._start_error(str(error)) from error
        return Plan(
            mode=mode,
            layers=[str(path) for path in layers.directories],
            workdir=spec.image.workdir,
            env=layers.environment(spec.env),
            network=spec.network,
            disk_bytes=limits.disk_mib * _MIB,
            disk_inodes=limits.disk_mib * _INODES_PER_MIB,
            memory_bytes=limits.memory_mib * _MIB,
            pids=limits.pids,
            cpus=limits.cpus,
            output_bytes=limits.output_bytes,
            open_files=int(spec.options.get("open_files", 4096)),
            cgroups=zygote.cgroups(self._number),
            cgroup_version=zygote.hierarchy.version,
        )

    async def usage(self) -> Usage | None:
        """See `SupervisedEnvironment.usage`; memory is the peak of its control group, where this process made one."""
        seen, zygote = await super().usage(), self._zygote
        if seen is None or not isinstance(zygote, ZygoteProcess) or "memory" not in zygote.cgroups(self._number):
            return seen
        name = "memory.peak" if zygote.hierarchy.version == 2 else "memory.max_usage_in_bytes"
        try:
            peak = int((Path(zygote.cgroups(self._number)["memory"]) / name).read_text())
        except OSError:  # version 2 before Linux 5.19 keeps no peak; or it is gone just now
            return seen
        return Usage(seen.cpu_s, peak / _MIB)

    async def stop(self) -> None:
        """Kill everything in it; the kernel removes its namespaces and mounts, the zygote its cgroups."""
        channel, self._channel = self._channel, None
        try:
            if channel is not None:
                await self._end(channel)
        finally:
            if isinstance(self._zygote, TakenSandbox):
                await asyncio.to_thread(self._zygote.close)
            layers, self._layers = self._layers, None
            if layers is not None:
                layers.release()

    async def _end(self, channel: Channel) -> None:
        assert self._zygote is not None
        try:
            async with _turns.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(_ENDING)):
                if not channel.is_open:
                    return
                await self._zygote.kill(self._number)
                if not await channel.wait_closed(_STOP_TIMEOUT_S):
                    logger.error("%s: not gone after %g s; left to the reaper", self.spec.label, _STOP_TIMEOUT_S)
        finally:
            channel.close()


def _release_late(preparing: asyncio.Future[tuple[str, Layers]]) -> None:
    """Nobody waits any more for the layers of a start that was cancelled."""
    if not preparing.cancelled() and preparing.exception() is None:
        preparing.result()[1].release()
