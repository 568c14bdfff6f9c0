"""`SandboxEnvironment`: an environment made of Linux namespaces, without a daemon."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from swe_plugin.environments.base import Environment, EnvironmentSpec
from swe_plugin.environments.images import ImageStore, Layers, resolve
from swe_plugin.environments.sandbox.channel import Channel
from swe_plugin.environments.sandbox.owner import ZygoteProcess, current_zygote
from swe_plugin.environments.sandbox.probe import require_mode
from swe_plugin.environments.sandbox.transfer import receive_tree, send_tree
from swe_plugin.environments.sandbox.zygote.files import FAILED
from swe_plugin.environments.sandbox.zygote.frames import Frame
from swe_plugin.environments.sandbox.zygote.plan import Plan
from swe_plugin.errors import EnvironmentStartError, EnvironmentUnavailable
from swe_plugin.types import ExecResult

__all__ = ["SandboxEnvironment", "agent_owner"]

logger = logging.getLogger(__name__)

_OPTIONS = frozenset({"mode", "open_files"})
_AGENT_ID = 1000
_GRACE_S = 15.0
"""How much later than a command's limit the sandbox must have answered; then it counts as dead."""
_FILE_TIMEOUT_S = 60.0
_TREE_TIMEOUT_S = 600.0
_STOP_TIMEOUT_S = 20.0
_INODES_PER_MIB = 64
_MIB, _GIB = 1 << 20, 1 << 30


class SandboxEnvironment(Environment):
    """One sandbox; see docs/sandbox.md for what it isolates and how.

    ``spec.options``: ``mode`` (``auto``, ``root`` or ``user``) and ``open_files``.
    """

    def __init__(self, spec: EnvironmentSpec) -> None:
        self.spec = spec
        self._channel: Channel | None = None
        self._zygote: ZygoteProcess | None = None
        self._layers: Layers | None = None
        self._number = 0
        self._shell = asyncio.Lock()
        self._used = False

    async def start(self) -> None:
        """Build the sandbox and start its bash."""
        if self._used:
            raise self._start_error("an environment is started once")
        self._used = True
        try:
            async with asyncio.timeout(self.spec.limits.start_timeout_s):
                await self._start()
        except TimeoutError:
            await self.stop()
            raise self._start_error(f"not ready after {self.spec.limits.start_timeout_s:g} s") from None
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
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
        if unknown := sorted(set(spec.options) - _OPTIONS):
            raise self._start_error(f"unknown option {unknown[0]!r}; known: {', '.join(sorted(_OPTIONS))}")
        if limits.disk_mib * 4 > limits.memory_mib * 3:
            raise self._start_error(
                f"disk_mib={limits.disk_mib} must be at most three quarters of memory_mib={limits.memory_mib}: "
                "written files count as memory"
            )
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

    async def exec(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
        stdin: bytes = b"",
    ) -> ExecResult:
        """Run one command as a child of the supervisor, confined like the session.

        Raises:
            ValueError: no program, or a NUL byte in an argument.
        """
        if not argv or any("\0" in word for word in argv):
            raise ValueError(f"argv={argv!r}: needs a program, and arguments without NUL bytes")
        request = {"op": "exec", "argv": list(argv), "cwd": cwd, "env": dict(env or {}), "timeout_s": timeout_s}
        return _result(await self._request(request, timeout_s, stdin))

    async def shell(self, script: str, *, timeout_s: float = 60.0) -> ExecResult:
        """Run a script in the session. A bash that was ended is replaced, in the last working directory."""
        async with self._shell:
            return _result(await self._request({"op": "shell", "script": script, "timeout_s": timeout_s}, timeout_s))

    async def read_file(self, path: str) -> bytes:
        """Content of a file of at most 64 MiB, as the agent may read it."""
        header, payload = await self._file("read", path)
        return payload[: header["n_stdout"]]

    async def write_file(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        """Write a file as the agent would: it belongs to it and counts against its limits."""
        await self._file("write", path, content, mode=mode)

    async def upload(self, source: Path, target: str) -> None:
        """Copy a local file or tree in. Owners become the agent."""
        await self._transfer("unpack", target, lambda end: send_tree(source, target, end))

    async def download(self, source: str, target: Path) -> None:
        """Copy a file or tree out.

        Raises:
            PermissionError: an entry would escape `target`.
        """
        await self._transfer("pack", source, lambda end: receive_tree(end, target))

    async def is_alive(self) -> bool:
        """Whether the supervisor answers within five seconds."""
        try:
            async with asyncio.timeout(5.0):
                await self._open_channel().request({"op": "ping"})
        except (EnvironmentUnavailable, TimeoutError):
            return False
        return True

    async def _file(self, kind: str, path: str, content: bytes = b"", mode: int = 0) -> Frame:
        request = {
            "op": "file",
            "kind": kind,
            "path": path,
            "mode": mode,
            "stream": False,
            "timeout_s": _FILE_TIMEOUT_S,
        }
        return _checked(await self._request(request, _FILE_TIMEOUT_S, content), path)

    async def _transfer(self, kind: str, path: str, local: Callable[[socket.socket], None]) -> None:
        """Connect a file operation inside with a thread here; ends both, whichever fails."""
        request = {"op": "file", "kind": kind, "path": path, "mode": 0, "stream": True, "timeout_s": _TREE_TIMEOUT_S}
        ours, theirs = socket.socketpair()
        worker = asyncio.ensure_future(asyncio.to_thread(local, ours))
        try:
            try:
                frame = await self._request(request, _TREE_TIMEOUT_S, pass_fd=theirs)
            finally:
                theirs.close()
            await asyncio.wait([worker])
        finally:
            with contextlib.suppress(OSError):
                ours.shutdown(socket.SHUT_RDWR)  # wakes the thread if it still waits
            await asyncio.wait([worker])
            ours.close()
            error = worker.exception()
        if error is not None and not isinstance(error, ConnectionError):
            raise error
        _checked(frame, path)  # says more than the broken connection that followed
        if error is not None:
            raise error

    async def _request(
        self, header: dict[str, Any], timeout_s: float, payload: bytes = b"", pass_fd: socket.socket | None = None
    ) -> Frame:
        channel = self._open_channel()
        try:
            async with asyncio.timeout(timeout_s + _GRACE_S):
                return await channel.request(header, payload, pass_fd.fileno() if pass_fd else None)
        except TimeoutError:
            await self.stop()
            raise EnvironmentUnavailable(f"{self.spec.label}: no answer {_GRACE_S:g} s after the time limit") from None

    def _open_channel(self) -> Channel:
        if self._channel is None:
            raise EnvironmentUnavailable(f"{self.spec.label}: the environment is not running")
        return self._channel

    def _start_error(self, reason: str) -> EnvironmentStartError:
        return EnvironmentStartError(f"{self.spec.label or 'sandbox'}: {reason}")


def agent_owner(mode: str) -> tuple[int, int]:
    """User and group id, on this machine, of the agent in sandboxes of a mode."""
    return (_AGENT_ID, _AGENT_ID) if mode == "root" else (os.geteuid(), os.getegid())


def _release_late(preparing: asyncio.Future[tuple[str, Layers, ZygoteProcess]]) -> None:
    """Nobody waits any more for the layers of a start that was cancelled."""
    if not preparing.cancelled() and preparing.exception() is None:
        preparing.result()[1].release()


def _result(frame: Frame) -> ExecResult:
    header, payload = frame
    cut = header["n_stdout"]
    return ExecResult(
        stdout=payload[:cut].decode(errors="replace"),
        stderr=payload[cut:].decode(errors="replace"),
        exit_code=header["exit_code"],
        duration_s=header["duration_s"],
        timed_out=header["timed_out"],
        truncated=header["truncated"],
    )


def _checked(frame: Frame, path: str) -> Frame:
    """Raise the error that a file operation reported."""
    header, payload = frame
    if header["exit_code"] == 0:
        return frame
    text = payload[header["n_stdout"] :].decode(errors="replace")
    if header["exit_code"] == FAILED:
        report = json.loads(text)
        raise OSError(report["errno"], report["text"], path)
    reason = "time-out" if header["timed_out"] else text or f"ended with {header['exit_code']}"
    raise OSError(errno.EIO, reason, path)
