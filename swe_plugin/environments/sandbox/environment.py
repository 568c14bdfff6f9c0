"""`SandboxEnvironment`: an environment made of Linux namespaces, without a daemon."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from typing import TYPE_CHECKING

from swe_plugin.environments.base import EnvironmentSpec
from swe_plugin.environments.images import ImageStore, Layers, check_image, resolve
from swe_plugin.environments.sandbox.channel import Channel
from swe_plugin.environments.sandbox.owner import ZygoteProcess, borrowed_zygote, current_zygote
from swe_plugin.environments.sandbox.probe import require_mode
from swe_plugin.environments.sandbox.settings import check_settings
from swe_plugin.environments.sandbox.zygote.plan import Plan
from swe_plugin.environments.supervised import SupervisedEnvironment
from swe_plugin.errors import ConfigError, EnvironmentStartError, EnvironmentUnavailable
from swe_plugin.types import Image

if TYPE_CHECKING:
    from swe_plugin.config import EnvironmentConfig

__all__ = ["SandboxEnvironment", "agent_owner"]

logger = logging.getLogger(__name__)

_AGENT_ID = 1000
_STOP_TIMEOUT_S = 20.0
_INODES_PER_MIB = 64
_MIB, _GIB = 1 << 20, 1 << 30


class SandboxEnvironment(SupervisedEnvironment):
    """One sandbox; see docs/sandbox.md for what it isolates and how.

    ``spec.options``: ``mode`` (``auto``, ``root`` or ``user``) and ``open_files``.
    """

    def __init__(self, spec: EnvironmentSpec) -> None:
        super().__init__(spec)
        self._zygote: ZygoteProcess | None = None
        self._layers: Layers | None = None
        self._number = 0

    @classmethod
    def check(cls, config: EnvironmentConfig) -> str:
        """Try a sandbox with these settings; see `Environment.check`."""
        options = dict(config.options)
        check_settings(config.memory_mib, config.disk_mib, options)
        with borrowed_zygote():
            try:
                return f"sandbox mode {require_mode(str(options.get('mode', 'auto')))}"
            except EnvironmentStartError as error:
                raise ConfigError("swe.environment.backend", config.backend, str(error)) from error

    @classmethod
    def check_image(cls, image: Image) -> None:
        """See `Environment.check_image`."""
        check_image(image)

    async def _launch(self) -> None:
        preparing = asyncio.get_running_loop().run_in_executor(None, self._prepare)
        try:
            mode, layers, zygote = await asyncio.shield(preparing)
        except asyncio.CancelledError:
            preparing.add_done_callback(_release_late)
            raise
        except EnvironmentStartError as error:
            raise self._start_error(str(error)) from error
        self._layers, self._zygote, self._number = layers, zygote, zygote.next_number()
        plan = self._plan(mode, layers)
        ours, theirs = socket.socketpair()
        try:
            self._channel = Channel(ours, self.spec.label)
            await zygote.start(self._number, theirs, user=plan.user_namespace)
        finally:
            theirs.close()
        try:
            header, _ = await self._channel.start(plan.to_dict())
        except EnvironmentUnavailable:
            raise self._start_error("the sandbox ended before it was ready") from None
        if "error" in header:
            raise self._start_error(header["error"])

    def _prepare(self) -> tuple[str, Layers, ZygoteProcess]:
        """What blocks: find the mode, build the image, start the zygote. All are remembered for the next time."""
        from swe_plugin.environments.sandbox.builder import run_in_layers

        mode = require_mode(str(self.spec.options.get("mode", "auto")))
        owner, zygote = agent_owner(mode), current_zygote()
        store = ImageStore(budget_bytes=int(self.spec.image_cache_gib * _GIB))
        layers = resolve(self.spec.image, owner=owner, store=store, run=run_in_layers)
        try:
            layers.check(self.spec.image, self.spec.env, owner)
        except BaseException:
            layers.release()
            raise
        return mode, layers, zygote

    def _plan(self, mode: str, layers: Layers) -> Plan:
        assert self._zygote is not None
        spec, limits = self.spec, self.spec.limits
        try:
            check_settings(limits.memory_mib, limits.disk_mib, spec.options)
        except ConfigError as error:
            raise self._start_error(str(error)) from error
        return Plan(
            mode=mode,
            layers=[str(path) for path in layers.directories],
            mount_point=str(self._zygote.mount_point),
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
            uid=_AGENT_ID,
            gid=_AGENT_ID,
            cgroups=self._zygote.cgroups(self._number),
            cgroup_version=self._zygote.hierarchy.version,
        )

    async def stop(self) -> None:
        """Kill everything in it; the kernel removes its namespaces and mounts, the zygote its cgroups."""
        channel, self._channel = self._channel, None
        try:
            if channel is not None:
                await self._end(channel)
        finally:
            layers, self._layers = self._layers, None
            if layers is not None:
                layers.release()

    async def _end(self, channel: Channel) -> None:
        assert self._zygote is not None
        try:
            if channel.is_open:
                await self._zygote.kill(self._number)
                if not await channel.wait_closed(_STOP_TIMEOUT_S):
                    logger.error("%s: not gone after %g s; left to the reaper", self.spec.label, _STOP_TIMEOUT_S)
        finally:
            channel.close()


def agent_owner(mode: str) -> tuple[int, int]:
    """User and group id, on this machine, of the agent in sandboxes of a mode."""
    return (_AGENT_ID, _AGENT_ID) if mode == "root" else (os.geteuid(), os.getegid())


def _release_late(preparing: asyncio.Future[tuple[str, Layers, ZygoteProcess]]) -> None:
    """Nobody waits any more for the layers of a start that was cancelled."""
    if not preparing.cancelled() and preparing.exception() is None:
        preparing.result()[1].release()
