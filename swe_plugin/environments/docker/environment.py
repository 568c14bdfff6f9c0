"""`DockerEnvironment`: an environment in a container."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import requests
from docker.errors import APIError, DockerException

from swe_plugin.environments.base import Capability, EnvironmentLimits, EnvironmentSpec
from swe_plugin.environments.docker.attach import StreamDemuxer, attach
from swe_plugin.environments.docker.bundle import COMMAND
from swe_plugin.environments.docker.daemon import Daemon, boundary, current_daemon, look_at_daemon
from swe_plugin.environments.docker.images import Prepared, prepare
from swe_plugin.environments.docker.ready import ReadyContainer
from swe_plugin.environments.docker.reaper import LABEL
from swe_plugin.environments.docker.settings import DockerSettings
from swe_plugin.environments.factory import AGENT_ENV
from swe_plugin.environments.images import check_image
from swe_plugin.environments.leases import ResourceLease
from swe_plugin.environments.movable import Parcel
from swe_plugin.environments.sandbox.channel import Channel
from swe_plugin.environments.sandbox.zygote.plan import Plan
from swe_plugin.environments.supervised import SupervisedEnvironment
from swe_plugin.errors import ConfigError, EnvironmentStartError, EnvironmentUnavailable
from swe_plugin.types import Image

if TYPE_CHECKING:
    from swe_plugin.config import EnvironmentConfig

__all__ = ["DockerEnvironment"]

logger = logging.getLogger(__name__)

_MIB = 1 << 20
_SUPERVISOR_PIDS = 1
_SETTLED_S = 0.2
"""After a start, before one more is made ahead: first commands go first."""
_PODMAN_PROCESSES = {"name": "nproc", "soft": 1 << 15, "hard": 1 << 15}
"""Of all containers of a user together. Without one, podman asks for more than it may give."""


class DockerEnvironment(SupervisedEnvironment):
    """One container; see docs/docker.md for what it isolates and how.

    ``spec.options``: see `DockerSettings`.
    """

    lacks: ClassVar[Mapping[Capability, str]] = {
        Capability.DISK_LIMIT: "Docker bounds a container's disk on btrfs, zfs and overlay2 over xfs with pquota only",
    }

    def __init__(self, spec: EnvironmentSpec) -> None:
        super().__init__(spec)
        self._daemon: Daemon | None = None
        self._making: asyncio.Future[socket.socket] | None = None
        self._name = ""
        self._taken: ResourceLease | None = None
        self._settings = DockerSettings()
        self._image: Prepared | None = None

    @classmethod
    def check(cls, config: EnvironmentConfig) -> str:
        """Ask the daemon; see `Environment.check`."""
        settings = DockerSettings.of(config.options)
        try:
            return look_at_daemon(settings.host)
        except EnvironmentStartError as error:
            raise ConfigError("swe.environment.backend", config.backend, str(error)) from error

    @classmethod
    def check_image(cls, image: Image) -> None:
        """See `Environment.check_image`. The daemon is not asked: which one it is, the image does not say."""
        check_image(image)

    async def prepare(self) -> None:
        """Have the daemon's image, pulled or imported."""
        try:
            self._settings = DockerSettings.of(self.spec.options)
            self._daemon = await asyncio.to_thread(current_daemon, self._settings.host)
            self._image = await self._daemon.make(self._prepare, self._daemon)
        except (ConfigError, EnvironmentStartError) as error:
            raise self._start_error(str(error)) from error

    async def _launch(self) -> None:
        if self._image is None:
            await self.prepare()
        image, daemon = self._image, self._daemon
        assert image is not None
        assert daemon is not None
        while (ready := daemon.ready.take(self._key(image))) is not None:
            self._name, self._making = ready.name, asyncio.get_running_loop().create_future()
            self._making.set_result(ready.stream)
            if await self._connect(ready.stream, image):
                break
            await self.stop()  # it died while it waited
        else:
            self._name = daemon.next_name()
            self._making = daemon.make(self._make, daemon, image, self._name, self.spec.label)
            try:
                stream = await asyncio.shield(self._making)
            except EnvironmentStartError as error:
                raise self._start_error(str(error)) from error
            if not await self._connect(stream, image):
                raise self._start_error("the container ended before it was ready; see the daemon's log")
        if self._settings.ready:
            asyncio.get_running_loop().call_later(_SETTLED_S, self._order_ready, daemon, image)

    async def _connect(self, stream: socket.socket, image: Prepared) -> bool:
        """Send the plan and wait until the supervisor is ready; False if the container has ended."""
        self._channel = Channel(stream, self.spec.label, unwrap=StreamDemuxer(self.spec.label))
        try:
            header, _ = await self._channel.start(self._plan(image).to_dict())
        except EnvironmentUnavailable:
            return False
        if "error" in header:
            raise self._start_error(header["error"])
        return True

    async def give(self) -> Parcel:
        """See `Movable.give`. The container ends with the stream to its supervisor."""
        assert self._daemon is not None
        channel, self._channel = self._open_channel(), None
        self._making = None
        lease = self._daemon.lease
        state = {"name": self._name, "first_id": channel.next_id(), "lease": lease.id}
        return Parcel(state, [channel.detach(), lease.share()])

    async def take(self, parcel: Parcel) -> None:
        """See `Movable.take`."""
        self._used = True
        try:
            self._settings = DockerSettings.of(self.spec.options)
            self._daemon = await asyncio.to_thread(current_daemon, self._settings.host)
        except (ConfigError, EnvironmentStartError) as error:
            raise self._start_error(str(error)) from error
        self._name, self._taken = parcel.state["name"], parcel.lease()
        stream = socket.socket(fileno=parcel.descriptors.pop())
        unwrap = StreamDemuxer(self.spec.label)
        self._channel = Channel(stream, self.spec.label, unwrap=unwrap, first_id=parcel.state["first_id"])

    def _prepare(self, daemon: Daemon) -> Prepared:
        """Blocking: the image, as the daemon has it."""
        with boundary(daemon.host):
            return prepare(
                daemon.api,
                daemon.lease.id,
                daemon.machine,
                self.spec.image,
                self.spec.env.get("HOME", ""),
                user=self._settings.user,
                pull=self._settings.pull,
            )

    def _key(self, image: Prepared) -> tuple[object, ...]:
        """What a container is made with; the rest comes with the plan."""
        return image.id, image.user, self.spec.limits, self.spec.network, self._settings.open_files

    def _order_ready(self, daemon: Daemon, image: Prepared) -> None:
        with contextlib.suppress(RuntimeError):  # this process has let go of the daemon meanwhile
            daemon.make(self._make_ready, daemon, image)

    def _make_ready(self, daemon: Daemon, image: Prepared) -> None:
        """Blocking: one container more like this one, for whoever comes next, if there is a place for it."""
        key, made = self._key(image), None
        wanted, gone = daemon.ready.expect(key, self._settings.ready)
        if not wanted:
            return
        try:
            if gone is not None:
                gone.stream.close()  # with which it ends, and is removed by the daemon
            name = daemon.next_name()
            made = ReadyContainer(key, name, self._make(daemon, image, name, "made ahead"))
        except EnvironmentStartError as error:
            logger.warning("docker: no container could be made ahead: %s", error)
        finally:
            daemon.ready.put(made)

    def _make(self, daemon: Daemon, image: Prepared, name: str, label: str) -> socket.socket:
        """Blocking: create the container, connect to its supervisor, start it."""
        api = daemon.api
        with boundary(daemon.host):
            self._create(daemon, image, name, label)
            stream = attach(api, name)  # before the start, so that nothing is missed
            try:
                api.start(name)
            except BaseException:
                stream.close()
                raise
        return stream

    def _create(self, daemon: Daemon, image: Prepared, name: str, label: str) -> None:
        config: dict[str, Any] = {
            "name": name,
            "entrypoint": COMMAND,
            "user": image.user,
            "hostname": "sandbox",
            "working_dir": "/",
            "stdin_open": True,
            "labels": {LABEL: daemon.lease.id, "swe-plugin.label": label},
            "healthcheck": {"test": ["NONE"]},
        }
        host = {**_limits(self.spec.limits, self._settings.open_files), **_HARDENED}
        if daemon.is_podman:
            host["ulimits"].append(_PODMAN_PROCESSES)
        host["network_mode"] = "none" if self.spec.network == "none" else "bridge"
        bundle = daemon.bundle or daemon.ensure_bundle()
        host["volumes_from"] = [f"{bundle}:ro"]
        if daemon.limits_disk:
            host["storage_opt"] = {"size": f"{self.spec.limits.disk_mib}M"}
        try:
            daemon.api.create_container(image.id, **config, host_config=daemon.api.create_host_config(**host))
        except APIError as error:
            said = str(error.explanation)
            if bundle in said:
                daemon.ensure_bundle()
            elif "storage_opt" in host and "storage" in said.lower():
                daemon.limits_disk = False
                logger.warning("docker: disk_mib is not held by this daemon's storage driver: %s", said)
                del host["storage_opt"]
            else:
                raise
            daemon.api.create_container(image.id, **config, host_config=daemon.api.create_host_config(**host))

    def _plan(self, image: Prepared) -> Plan:
        spec, limits = self.spec, self.spec.limits
        env = {**image.env, **spec.env}
        if spec.env.get("PATH") == AGENT_ENV["PATH"] and "PATH" in image.env:
            env["PATH"] = image.env["PATH"]  # the image knows where its tools are; ours is a default
        return Plan(
            mode="user",  # the supervisor has the agent's identity, and no right to change it
            layers=[],
            workdir=spec.image.workdir,
            env=env,
            network=spec.network,
            disk_bytes=0,
            disk_inodes=0,
            memory_bytes=limits.memory_mib * _MIB,
            pids=limits.pids,
            cpus=limits.cpus,
            output_bytes=limits.output_bytes,
            open_files=self._settings.open_files,
            cgroups={"memory": "", "pids": ""},  # the daemon's: the supervisor need not watch them
        )

    async def stop(self) -> None:
        """Remove the container. If the daemon is gone, it removes it when it is back, or the reaper does."""
        channel, self._channel = self._channel, None
        making, self._making = self._making, None
        taken, self._taken = self._taken, None
        if making is not None:
            await asyncio.wait([making])
            if channel is None and not making.cancelled() and making.exception() is None:
                making.result().close()
        if making is not None or taken is not None:
            assert self._daemon is not None
            try:
                await self._daemon.remove(self._name)
            except (DockerException, requests.RequestException) as error:
                logger.warning("%s: container %s is left to the reaper: %s", self.spec.label, self._name, error)
        if channel is not None:
            channel.close()
        if taken is not None:
            await asyncio.to_thread(taken.release)


_HARDENED: dict[str, Any] = {
    "auto_remove": True,
    "cap_drop": ["ALL"],
    "cgroupns": "private",
    "ipc_mode": "private",
    "log_config": {"type": "none"},
    "security_opt": ["no-new-privileges:true"],
}


def _limits(limits: EnvironmentLimits, open_files: int) -> dict[str, Any]:
    largest_file = limits.disk_mib * _MIB
    return {
        "mem_limit": f"{limits.memory_mib}m",
        "memswap_limit": f"{limits.memory_mib}m",
        "nano_cpus": int(limits.cpus * 1e9),
        "pids_limit": limits.pids + _SUPERVISOR_PIDS,
        "shm_size": f"{max(1, limits.memory_mib // 4)}m",
        "ulimits": [
            {"name": "core", "soft": 0, "hard": 0},
            {"name": "fsize", "soft": largest_file, "hard": largest_file},
            {"name": "nofile", "soft": open_files, "hard": open_files},
        ],
    }
