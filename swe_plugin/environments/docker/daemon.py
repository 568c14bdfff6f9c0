"""One Docker daemon as one process uses it: client, threads, lease, and the container that holds our supervisor."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import contextvars
import os
import platform
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import docker
import requests
from docker.errors import APIError, DockerException, NotFound
from docker.utils import kwargs_from_env

from swe_plugin.environments.docker.bundle import bundle_key, write_bundle
from swe_plugin.environments.docker.imports import exclusive, import_archive
from swe_plugin.environments.docker.ready import ReadyContainers
from swe_plugin.environments.docker.reaper import remove_container, remove_containers
from swe_plugin.environments.leases import ResourceLease, reap
from swe_plugin.errors import EnvironmentStartError

__all__ = ["Daemon", "boundary", "close_daemons", "current_daemon", "local_sizes", "look_at_daemon"]

_MAKERS = min(max(4, os.cpu_count() or 1), 8)
"""Containers being made at once; what is above waits here instead of in the daemon, where all of a burst end last."""
_REMOVERS = 4
_TIMEOUT_S = 120
_CONFLICT = 409
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_Result = TypeVar("_Result")


@contextlib.contextmanager
def boundary(host: str) -> Iterator[None]:
    """Turn errors of the SDK into `EnvironmentStartError`, with what to do."""
    try:
        yield
    except APIError as error:
        raise EnvironmentStartError(f"docker: {_short(error)}") from error
    except (DockerException, requests.RequestException) as error:
        raise EnvironmentStartError(
            f"the Docker daemon at {host} does not answer ({_short(error)}); start it, or set DOCKER_HOST"
        ) from error


def _short(error: Exception) -> str:
    return str(getattr(error, "explanation", None) or error).strip().splitlines()[-1][:500]


class Daemon:
    """A connected daemon.

    Args:
        host: its address, as in ``DOCKER_HOST``.

    Attributes:
        api: the SDK's low-level client; thread-safe for what is used here.
        machine: its architecture, as images name it.
        lease: on disk before the first container; every container carries its id as a label.
        ready: its containers that were made ahead.
        bundle: what `ensure_bundle` returned; empty before.
    """

    def __init__(self, host: str) -> None:
        self.host = host
        self.api, self.machine, version = _connect(host)
        self.is_podman = version.startswith("Podman")
        self.lease = ResourceLease("docker", daemons=[host])
        self.ready = ReadyContainers()
        self.bundle = ""
        self.limits_disk = True
        """Whether the storage driver bounds a container's disk; found out by the first container."""
        self._makers, self._removers = _started("swe-docker-make", _MAKERS), _started("swe-docker-remove", _REMOVERS)
        self._numbers = iter(range(1, 1 << 62))

    def next_name(self) -> str:
        """Name of a new container."""
        return f"{self.lease.id}-{next(self._numbers)}"

    def make(self, function: Callable[..., _Result], *arguments: Any) -> asyncio.Future[_Result]:
        """Run a blocking function that makes a container; `_MAKERS` at once."""
        context = contextvars.copy_context()  # on whose behalf
        return asyncio.get_running_loop().run_in_executor(self._makers, context.run, function, *arguments)

    def remove(self, name: str) -> asyncio.Future[bool]:
        """Remove a container, in threads that no start can occupy."""
        return asyncio.get_running_loop().run_in_executor(self._removers, remove_container, self.api, name)

    def close(self) -> None:
        """Remove every container of this process and forget the daemon. Blocking.

        Those that were given away stay; others end with the streams that this process has to them.
        """
        for threads in (self._makers, self._removers):
            threads.shutdown(cancel_futures=True)  # a container that is being made would be missed below
        self.ready.close()
        if self.lease.is_shared:
            self.api.close()
            self.lease.release()
            return
        _, problem = remove_containers(self.host, self.lease.id)
        self.api.close()
        if problem:
            self.lease.abandon()  # the next reaper tries again
        else:
            self.lease.release()

    def ensure_bundle(self) -> str:
        """Name of the container, never started, whose volume other containers mount read-only. Blocking.

        It can be inspected only when its volume is filled: no half-written supervisor is ever used.
        ``docker container prune`` takes it: then a start fails that names it, and it has to be looked for again.
        """
        name = f"swe-plugin-guest-{bundle_key()}"
        with exclusive(name), contextlib.suppress(_Exists):
            self._raise_if_there(name)
            image = f"swe-plugin-guest:{bundle_key()}"
            import_archive(self.api, image, write_bundle, changes=["VOLUME /.swe-plugin"])
            try:
                self.api.create_container(image, ["none"], name=name, labels={"swe-plugin.kind": "guest"})
            except APIError as error:
                if error.status_code != _CONFLICT:  # another machine was faster
                    raise
            if self.is_podman:  # which fills a volume when its container starts; there is nothing to run in this one
                with contextlib.suppress(APIError):
                    self.api.start(name)
        self.bundle = name
        return name

    def _raise_if_there(self, name: str) -> None:
        with contextlib.suppress(NotFound):
            self.api.inspect_container(name)
            raise _Exists


class _Exists(Exception):
    pass


def _started(name: str, size: int) -> ThreadPoolExecutor:
    """Threads that run already: starting one later would hold whoever submits, an event loop, until it had a core."""
    threads, up = ThreadPoolExecutor(size, name), threading.Barrier(size + 1)
    for _ in range(size):
        threads.submit(up.wait)
    up.wait()
    return threads


def _connect(host: str) -> tuple[Any, str, str]:
    """A client, the daemon's architecture, and its name and version.

    Raises:
        EnvironmentStartError: it does not answer, or runs on another kind of machine.
    """
    settings: dict[str, Any] = {**kwargs_from_env(), "base_url": host}  # TLS files and the like
    with boundary(host):
        api = docker.DockerClient(**settings, version="auto", timeout=_TIMEOUT_S).api
        found = api.version()
    theirs, ours = found["Arch"], _ARCHITECTURES.get(platform.machine(), platform.machine())
    if platform.system() != "Linux" or theirs != ours:
        api.close()
        raise EnvironmentStartError(
            f"docker: the daemon at {host} runs on {theirs}, this process on {platform.system()} {ours}: "
            "containers get their supervisor from here, so both must be Linux of one architecture"
        )
    engine = next((item["Name"] for item in found.get("Components") or ()), "Engine")
    return api, theirs, f"{engine.replace('Engine', '').strip() or 'Docker'} {found['Version']}"


def look_at_daemon(host: str) -> str:
    """Version and address of a daemon that containers can be started on. Blocking; leaves nothing.

    Raises:
        EnvironmentStartError: there is none.
    """
    api, _, version = _connect(host)
    try:
        driver = api.info()["Driver"]
    finally:
        api.close()
    return f"{version} at {host}, storage driver {driver}"


def local_sizes(host: str) -> dict[str, int]:
    """Unpacked bytes of the images that a daemon has, by each of their references. Blocking; leaves nothing.

    Raises:
        EnvironmentStartError: it does not answer.
    """
    api, _, _ = _connect(host)
    try:
        with boundary(host):
            found = api.images()
    finally:
        api.close()
    names = ("RepoTags", "RepoDigests")
    return {name: item["Size"] for item in found for key in names for name in item.get(key) or ()}


_lock = threading.Lock()
_current: dict[str, Daemon] = {}
_at_exit = False


def current_daemon(host: str) -> Daemon:
    """The daemon of this process at an address, connected if need be after removing what dead owners left. Blocking.

    Args:
        host: its address, as in ``DOCKER_HOST``.

    Raises:
        EnvironmentStartError: it does not answer.
    """
    global _at_exit
    with _lock:
        if host not in _current:
            reap()
            _current[host] = Daemon(host)
            if not _at_exit:
                atexit.register(close_daemons)
                _at_exit = True
        return _current[host]


def close_daemons() -> None:
    """Remove every container of this process. Blocking; the next environment connects again."""
    with _lock:
        while _current:
            _current.popitem()[1].close()


def _forget_in_child() -> None:
    """A forked child has neither the threads nor the containers of its parent."""
    global _lock
    _lock = threading.Lock()
    _current.clear()


os.register_at_fork(after_in_child=_forget_in_child)
