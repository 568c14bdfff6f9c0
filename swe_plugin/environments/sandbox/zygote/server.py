"""The zygote: a small process that forks sandboxes and cleans up after them.

It serves its owner over a SEQPACKET socket: ``{"op": "start", "id": n, "mode": str, "network": str, "trial": bool}``
with the sandbox's end of a socket attached, and ``{"op": "kill", "id": n}``. It keeps a copy of that socket until the
sandbox and its cgroups are gone, so that the owner sees the end of the stream exactly then. For every mode that was
asked for it keeps a few spare children, made while it has nothing else to do. When the owner
dies, the control socket ends and everything is killed. ``{"op": "give", "id": n}`` with another control socket
attached makes whoever has its other end the owner of that sandbox; the zygote lives as long as any owner.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import os
import selectors
import signal
import socket
import time
import traceback
from typing import Any

from swe_plugin.environments.sandbox.zygote import build, cgroups
from swe_plugin.environments.sandbox.zygote import syscalls as sys_
from swe_plugin.environments.sandbox.zygote.frames import encode
from swe_plugin.environments.sandbox.zygote.plan import Ground
from swe_plugin.environments.sandbox.zygote.ranges import Range, Ranges

__all__ = ["serve"]

_RETRY_S = 0.005
_GIVE_UP_S = 5.0
"""A cgroup that is busy for longer is left to the reaper."""
_SPARES = min(4 * (os.cpu_count() or 1), 8)
"""Of a mode. More starts at once wait for processors much longer than for what a spare has done ahead."""


class _Sandbox:
    """A child: a spare until it has a number, an owner and a copy of the owner's socket to it."""

    def __init__(self, pid: int, end: socket.socket, ids: Range | None) -> None:
        self.pid, self.end, self.ids = pid, end, ids
        self.number = 0
        self.channel: socket.socket | None = None
        self.owner: socket.socket | None = None
        self.groups: dict[str, str] = {}
        self.give_up_at = 0.0


class _Zygote:
    def __init__(self, control: socket.socket, groups: dict[str, str], mount_point: str) -> None:
        self._owners = {control}
        self._groups, self._mount_point = groups, mount_point
        self._children: dict[int, _Sandbox] = {}
        self._sandboxes: dict[int, _Sandbox] = {}
        self._spares: dict[str, list[_Sandbox]] = {}
        self._wanted: set[str] = set()
        self._dying: list[_Sandbox] = []
        self._ranges = Ranges()
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        wake, wake_in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_in, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for control in self._owners:
            self._watch(control)
        self._selector.register(wake, selectors.EVENT_READ)
        while self._owners or self._children or self._dying:
            lacking = [mode for mode in self._wanted if len(self._spares[mode]) < _SPARES]
            events = self._selector.select(_RETRY_S if self._dying or lacking else None)
            if not events and lacking:
                self._add_spare(lacking[0])
            for key, _ in events:
                if key.fd == wake:
                    with contextlib.suppress(BlockingIOError):
                        os.read(wake, 4096)
                elif not self._receive(key.fileobj):  # type: ignore[arg-type]
                    self._drop_owner(key.fileobj)  # type: ignore[arg-type]
            self._reap()
            self._dying = [sandbox for sandbox in self._dying if not self._gone(sandbox)]
        deadline = time.monotonic() + _GIVE_UP_S
        while not cgroups.remove(self._groups) and time.monotonic() < deadline:
            time.sleep(_RETRY_S)

    def _watch(self, control: socket.socket) -> None:
        control.setblocking(False)
        self._selector.register(control, selectors.EVENT_READ)

    def _drop_owner(self, control: socket.socket) -> None:
        self._selector.unregister(control)
        self._owners.discard(control)
        control.close()
        for sandbox in self._sandboxes.values():
            if sandbox.owner is control:
                _kill(sandbox.pid)
        if not self._owners:
            for spare in itertools.chain(*self._spares.values()):
                _kill(spare.pid)
            self._wanted.clear()

    def _receive(self, control: socket.socket) -> bool:
        try:
            data, fds, _, _ = socket.recv_fds(control, 1 << 16, 1)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data:
            return False
        request = json.loads(data)
        if request["op"] == "start":
            self._start(request, socket.socket(fileno=fds[0]), control)
        elif request["op"] == "give":
            self._give(request["id"], socket.socket(fileno=fds[0]))
        elif sandbox := self._sandboxes.get(request["id"]):
            _kill(sandbox.pid)
        return True

    def _give(self, number: int, control: socket.socket) -> None:
        if number not in self._sandboxes:
            control.close()
            return
        self._sandboxes[number].owner = control
        self._owners.add(control)
        self._watch(control)

    def _start(self, request: dict[str, Any], channel: socket.socket, owner: socket.socket) -> None:
        number, mode, network = request["id"], request["mode"], request["network"]
        spares = []
        if network == "none" and not request["trial"]:
            spares = self._spares.setdefault(mode, [])
            self._wanted.add(mode)
        try:
            sandbox = self._hand_over(channel, spares, mode, network)
        except OSError as error:
            with contextlib.suppress(OSError):
                channel.sendall(encode({"id": 0, "error": build.error_text(error)}))
            channel.close()
            return
        sandbox.number, sandbox.channel, sandbox.owner = number, channel, owner
        sandbox.groups = {name: f"{path}/{number}" for name, path in self._groups.items()}
        self._sandboxes[number] = sandbox

    def _hand_over(self, channel: socket.socket, spares: list[_Sandbox], mode: str, network: str) -> _Sandbox:
        """Give the owner's socket to a spare that lives, or to a new child."""
        while True:
            spare = spares.pop(0) if spares else None
            sandbox = spare or self._fork(mode, network)
            with sandbox.end:
                try:
                    socket.send_fds(sandbox.end, [b"0"], [channel.fileno()])
                except OSError:
                    if spare:
                        continue
                    raise
            return sandbox

    def _add_spare(self, mode: str) -> None:
        """Have one child more than was asked for, that waits with all done that needs no plan."""
        try:
            self._spares[mode].append(self._fork(mode, "none"))
        except OSError:
            self._wanted.discard(mode)  # who asks for the next one is told

    def _fork(self, mode: str, network: str) -> _Sandbox:
        zygote = os.getuid(), os.getgid()
        ours, theirs = socket.socketpair()
        ids = None
        try:
            ids = self._ranges.take() if mode == "rootmap" else None
            pid = sys_.clone(build.first_namespaces(mode))
        except OSError:
            if ids is not None:
                self._ranges.give_back(ids)
            raise
        if pid == 0:
            named = (ids.first, ids.namespace) if ids else ()
            self._child(theirs, zygote, Ground(mode, network, self._mount_point, *named))
        theirs.close()
        self._children[pid] = _Sandbox(pid, ours, ids)
        return self._children[pid]

    def _child(self, end: socket.socket, zygote: tuple[int, int], ground: Ground) -> None:
        """In the new process: keep the socket and the user namespace of `ground` alone, and never return."""
        try:
            signal.set_wakeup_fd(-1)
            low = 3
            for fd in sorted({end.fileno(), ground.namespace} - {-1}):
                os.closerange(low, fd)
                low = fd + 1
            os.closerange(low, 1 << 16)
            build.run_sandbox(ground, end, *zygote)
        except BaseException as error:
            _report(error)
        finally:
            os._exit(0)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if sandbox := self._children.pop(ended[0], None):
                    self._sandboxes.pop(sandbox.number, None)
                    for mode, spares in self._spares.items():
                        if sandbox in spares:
                            spares.remove(sandbox)
                            self._wanted.discard(mode)  # not another one to the same death, until somebody asks
                    sandbox.give_up_at = time.monotonic() + _GIVE_UP_S
                    self._dying.append(sandbox)

    def _gone(self, sandbox: _Sandbox) -> bool:
        if not cgroups.remove(sandbox.groups) and time.monotonic() < sandbox.give_up_at:
            return False
        if sandbox.ids is not None:
            self._ranges.give_back(sandbox.ids)
        for held in (sandbox.end, sandbox.channel):
            if held is not None:
                held.close()
        return True


def _report(error: BaseException) -> None:
    """Say where a sandbox failed, without source lines: their files are looked up in what is the agent's by now."""
    lines = [f"  {frame.f_code.co_filename}:{line}" for frame, line in traceback.walk_tb(error.__traceback__)]
    os.write(2, "\n".join([f"sandbox: {type(error).__name__}: {error}", *lines, ""]).encode(errors="replace"))


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def serve(fd: int) -> None:
    """Run until the owner is gone and every sandbox with it.

    Args:
        fd: the control socket. Its first message is ``{"groups": {controller: directory}, "version": 1 or 2,
            "mount_point": str}``; the directories are made here and removed at the end.
    """
    control = socket.socket(fileno=fd)
    sys_.prctl(sys_.PR_SET_CHILD_SUBREAPER, 1)
    hello = json.loads(control.recv(1 << 16) or b"{}")
    groups: dict[str, str] = hello.get("groups", {})
    for path in set(groups.values()):
        os.makedirs(path, exist_ok=True)
        if hello.get("version") == 2:
            with open(f"{path}/cgroup.subtree_control", "w") as control_file:
                control_file.write("+memory +pids +cpu")
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ}:
        with contextlib.suppress(OSError):  # two real-time signals belong to the C library
            signal.signal(number, signal.SIG_DFL)  # whatever the owner ignores, agents do not
    gc.freeze()  # what is shared with the children stays shared: no collector touches it
    _Zygote(control, groups, hello.get("mount_point", "")).run()
