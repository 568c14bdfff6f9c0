"""The owner's side of a zygote: spawned on first use, one per process, replaced when it has died."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

from swe_plugin.environments.home import home
from swe_plugin.environments.leases import ResourceLease, reap
from swe_plugin.environments.sandbox import zygote
from swe_plugin.environments.sandbox.hierarchy import detect_hierarchy, find_candidates
from swe_plugin.errors import EnvironmentStartError

__all__ = ["TakenSandbox", "ZygoteProcess", "borrowed_zygote", "close_zygote", "current_zygote", "running_zygote"]

_SEND_ATTEMPTS, _SEND_PAUSE_S = 2500, 0.002


class ZygoteProcess:
    """A running zygote and the lease under which it makes cgroups.

    Attributes:
        lease: recorded before the process exists; its id is on the zygote's command line.
        hierarchy: cgroup controllers that sandboxes get.
        mount_point: an empty directory that sandboxes mount over, each in its own namespace.
    """

    def __init__(self) -> None:
        candidates = find_candidates()
        self.lease = ResourceLease("zygote", cgroups={path for paths in candidates.parents.values() for path in paths})
        self.hierarchy = detect_hierarchy(candidates, self.lease.id)
        self.mount_point = home() / "mnt"
        self.mount_point.mkdir(exist_ok=True)
        self._groups = {name: parent / self.lease.id for name, parent in self.hierarchy.parents.items()}
        self._numbers = itertools.count(1)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        command = [sys.executable, "-I", "-S", str(Path(zygote.__file__).parent / "__main__.py")]
        try:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno()), self.lease.id],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C in a terminal is for the owner alone
                env=_environment(),
                cwd="/",
            )
        except OSError as error:
            self._control.close()
            self.lease.release()
            raise EnvironmentStartError(f"sandbox: cannot start {command[0]}: {error}") from error
        finally:
            theirs.close()
        groups = {name: str(path) for name, path in self._groups.items()}
        hello = {"groups": groups, "version": self.hierarchy.version, "mount_point": str(self.mount_point)}
        with contextlib.suppress(OSError):  # it died at once: the first start will say so
            self._control.send(json.dumps(hello).encode())

    @property
    def is_running(self) -> bool:
        """The process lives and this process may talk to it."""
        return self._process.poll() is None

    def cgroups(self, number: int) -> dict[str, str]:
        """Controller -> directory of one sandbox."""
        return {name: str(path / str(number)) for name, path in self._groups.items()}

    def next_number(self) -> int:
        """A fresh sandbox number."""
        return next(self._numbers)

    async def start(self, number: int, end: socket.socket, mode: str, network: str) -> None:
        """Ask for a sandbox of a mode and network that serves `end` of a socket.

        Raises:
            EnvironmentStartError: the zygote is gone or does not take requests.
        """
        for _ in range(_SEND_ATTEMPTS):
            if self._try_start(number, end, mode, network):
                return
            await asyncio.sleep(_SEND_PAUSE_S)
        raise EnvironmentStartError("sandbox: the zygote takes no requests")

    def start_trial(self, number: int, end: socket.socket, mode: str) -> None:
        """The same for a trial, from a thread without an event loop."""
        for _ in range(_SEND_ATTEMPTS):
            if self._try_start(number, end, mode, "none", trial=True):
                return
            time.sleep(_SEND_PAUSE_S)
        raise EnvironmentStartError("sandbox: the zygote takes no requests")

    def _try_start(self, number: int, end: socket.socket, mode: str, network: str, *, trial: bool = False) -> bool:
        return self._try_send({"op": "start", "id": number, "mode": mode, "network": network, "trial": trial}, end)

    def _try_send(self, request: dict[str, object], end: socket.socket) -> bool:
        try:
            socket.send_fds(self._control, [json.dumps(request).encode()], [end.fileno()])
        except BlockingIOError:
            return False
        except OSError as error:
            raise EnvironmentStartError(f"sandbox: the zygote is gone ({error})") from error
        return True

    async def give(self, number: int) -> socket.socket:
        """Make whoever has the returned socket the owner of a sandbox: it ends when that is closed.

        Raises:
            EnvironmentStartError: the zygote is gone or does not take requests.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            for _ in range(_SEND_ATTEMPTS):
                if self._try_send({"op": "give", "id": number}, theirs):
                    return ours
                await asyncio.sleep(_SEND_PAUSE_S)
        ours.close()
        raise EnvironmentStartError("sandbox: the zygote takes no requests")

    async def kill(self, number: int) -> None:
        """End a sandbox; the end of its socket tells when it is gone. No error if the zygote itself is gone."""
        for _ in range(_SEND_ATTEMPTS):
            try:
                self._control.send(json.dumps({"op": "kill", "id": number}).encode())
            except BlockingIOError:
                await asyncio.sleep(_SEND_PAUSE_S)
                continue
            except OSError:
                pass
            return

    def close(self, timeout_s: float = 10.0) -> None:
        """End it and every sandbox of it but those that were given away. Blocking."""
        self._control.close()
        if self.lease.is_shared:
            self.lease.release()  # the last owner waits for the zygote, or the reaper ends it
            return
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._finish()

    def _finish(self) -> None:
        """Drop the lease, and before it what a zygote that was killed has left."""
        if any(path.exists() for path in self._groups.values()):
            self.lease.clean()
        else:
            self.lease.release()


def _environment() -> dict[str, str]:
    """Variables of the zygote: none of this process but where an interpreter's own libraries are."""
    libraries = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", **libraries}


class TakenSandbox:
    """The owner's side of one sandbox that another process gave.

    Args:
        control: what `ZygoteProcess.give` returned there.
        lease: of the zygote.
    """

    def __init__(self, control: socket.socket, lease: ResourceLease) -> None:
        self._control, self._lease = control, lease
        _taken.add(self)

    async def kill(self, number: int) -> None:
        """End it; the end of its socket tells when it is gone."""
        self._control.close()

    def close(self) -> None:
        """Let go of the lease of what is gone. Idempotent."""
        self._control.close()
        self._lease.release()


_lock = threading.Lock()
_current: ZygoteProcess | None = None
_at_exit = False
_taken: weakref.WeakSet[TakenSandbox] = weakref.WeakSet()


def running_zygote() -> ZygoteProcess | None:
    """The zygote of this process, if it has one that lives. Does not block."""
    zygote = _current
    return zygote if zygote is not None and zygote.is_running else None


def current_zygote() -> ZygoteProcess:
    """The zygote of this process, started if need be after removing what dead owners left. Blocking."""
    global _current, _at_exit
    with _lock:
        if _current is None or not _current.is_running:
            if _current is not None:
                _current.close()
            reap()
            _current = ZygoteProcess()
            if not _at_exit:
                atexit.register(close_zygote)
                _at_exit = True
        return _current


def close_zygote() -> None:
    """End the zygote of this process, if there is one. Blocking; the next sandbox starts another."""
    global _current
    with _lock:
        zygote, _current = _current, None  # first: nobody starts anything in one that ends
        if zygote is not None:
            zygote.close()


@contextlib.contextmanager
def borrowed_zygote() -> Iterator[None]:
    """For the length of a trial: a zygote that was not running before is ended after it. Blocking."""
    was_running = _current is not None
    try:
        yield
    finally:
        if not was_running:
            close_zygote()


def _forget_in_child() -> None:
    """A forked child must neither use nor keep alive its parent's zygote."""
    global _current, _lock
    _lock = threading.Lock()
    if _current is not None:
        _current._control.close()
        _current = None
    for sandbox in _taken:
        sandbox._control.close()


os.register_at_fork(after_in_child=_forget_in_child)
