"""`SupervisedEnvironment`: what backends share whose environments have our supervisor as PID 1.

They differ in how an environment is made and removed; commands, files and trees are requests to the supervisor.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import socket
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

from swe_plugin.environments.base import EnvironmentSpec
from swe_plugin.environments.connection import Connection
from swe_plugin.environments.sandbox.channel import Channel
from swe_plugin.environments.sandbox.transfer import receive_tree, send_tree
from swe_plugin.environments.sandbox.zygote.files import FAILED
from swe_plugin.environments.sandbox.zygote.frames import Frame
from swe_plugin.environments.single_use import SingleUse
from swe_plugin.environments.start import dropped, settled
from swe_plugin.errors import EnvironmentUnavailable
from swe_plugin.types import ExecResult, Usage

__all__ = ["SupervisedEnvironment"]

_GRACE_S = 15.0
"""How much later than a command's limit the supervisor must have answered; then it counts as dead."""
_FILE_TIMEOUT_S = 60.0
_USAGE_TIMEOUT_S = 5.0
_TREE_TIMEOUT_S = 600.0
_CHUNK = 1 << 18
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class _Stream:
    read: Callable[[], Awaitable[bytes]]
    write: Callable[[bytes], Awaitable[None]]
    answer: asyncio.Future[Frame]


Pump = Callable[[_Stream, socket.socket], Coroutine[Any, Any, None]]


class SupervisedEnvironment(SingleUse):
    """Subclasses implement `_launch`, which sets `_channel`, and `stop`, which takes it away."""

    def __init__(self, spec: EnvironmentSpec) -> None:
        super().__init__(spec)
        self._channel: Channel | None = None
        self._shell = asyncio.Lock()

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
        self._check_argv(argv)
        request = {"op": "exec", "argv": list(argv), "cwd": cwd, "env": dict(env or {}), "timeout_s": timeout_s}
        return _result(await self._request(request, timeout_s, stdin))

    @asynccontextmanager
    async def connect(self, argv: Sequence[str], *, timeout_s: float) -> AsyncIterator[Connection]:
        """A command whose stdin and stdout are a stream of the supervisor's; a read or write is one round trip."""
        self._check_argv(argv)
        request = {"op": "exec", "argv": list(argv), "cwd": "/", "env": {}, "timeout_s": timeout_s}
        async with self._streamed(request, timeout_s) as stream:
            ended = asyncio.ensure_future(_result_of(stream.answer))
            try:
                yield Connection(stream.read, stream.write, ended)
            finally:
                await dropped(ended)

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
        await self._transfer("unpack", target, _push, lambda end: send_tree(source, target, end))

    async def download(self, source: str, target: Path) -> None:
        """Copy a file or tree out.

        Raises:
            PermissionError: an entry would escape `target`.
        """
        await self._transfer("pack", source, _pull, lambda end: receive_tree(end, target))

    async def is_alive(self) -> bool:
        """Whether the supervisor answers within five seconds."""
        try:
            async with asyncio.timeout(5.0):
                await self._open_channel().request({"op": "ping"})
        except (EnvironmentUnavailable, TimeoutError):
            return False
        return True

    async def usage(self) -> Usage | None:
        """As its supervisor sees it in the process table; memory is that of now, or of its largest dead process.

        None if that takes too long, which is no reason to give the environment up.
        """
        try:
            async with asyncio.timeout(_USAGE_TIMEOUT_S):
                header, _ = await self._open_channel().request({"op": "usage"})
        except TimeoutError:
            return None
        return Usage(header["cpu_s"], header["memory_bytes"] / _MIB)

    async def _file(self, kind: str, path: str, content: bytes = b"", mode: int = 0) -> Frame:
        request = _file_request(kind, path, mode, _FILE_TIMEOUT_S)
        return _checked(await self._request(request, _FILE_TIMEOUT_S, content), path)

    async def _transfer(self, kind: str, path: str, pump: Pump, local: Callable[[socket.socket], None]) -> None:
        """Connect a file operation inside with a thread here; ends both, whichever fails."""
        self._open_channel()
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        worker = asyncio.ensure_future(asyncio.to_thread(local, ours))
        remote = asyncio.ensure_future(self._operate(kind, path, pump, theirs))
        try:
            await asyncio.wait([worker, remote], return_when=asyncio.FIRST_EXCEPTION)
        finally:
            remote.cancel()
            await settled(remote)
            with contextlib.suppress(OSError):
                ours.shutdown(socket.SHUT_RDWR)  # wakes the thread if it still waits
            await settled(worker)
            ours.close()
            theirs.close()
            here, there = worker.exception(), None if remote.cancelled() else remote.exception()
        if there and isinstance(here, (ConnectionError, tarfile.ReadError, NoneType)):
            raise there  # it says more than the stream that broke off after it
        if here:
            raise here

    async def _operate(self, kind: str, path: str, pump: Pump, end: socket.socket) -> None:
        """One tree operation inside, its bytes pumped between it and `end`."""
        async with self._streamed(_file_request(kind, path, 0, _TREE_TIMEOUT_S), _TREE_TIMEOUT_S) as stream:
            await pump(stream, end)
            _checked(await stream.answer, path)

    @asynccontextmanager
    async def _streamed(self, request: dict[str, Any], timeout_s: float) -> AsyncIterator[_Stream]:
        """A request to which bytes are pushed and from which they are pulled while it is not answered."""
        number = self._open_channel().next_id()
        answer = asyncio.ensure_future(self._request({**request, "stream": True}, timeout_s, number=number))

        async def read() -> bytes:
            return (await self._open_channel().request({"op": "pull", "target": number}))[1]

        async def write(chunk: bytes) -> None:
            await self._open_channel().request({"op": "push", "target": number}, chunk)

        try:
            await asyncio.sleep(0)  # lets its frame go first: a pull of what does not exist yet is the end
            yield _Stream(read, write, answer)
        finally:
            await dropped(answer)

    async def _request(
        self, header: dict[str, Any], timeout_s: float, payload: bytes = b"", number: int | None = None
    ) -> Frame:
        channel = self._open_channel()
        try:
            async with asyncio.timeout(timeout_s + _GRACE_S):
                return await channel.request(header, payload, number)
        except TimeoutError:
            await self.stop()
            raise self._unavailable(f"no answer {_GRACE_S:g} s after the time limit") from None

    def _open_channel(self) -> Channel:
        if self._channel is None:
            raise self._unavailable()
        return self._channel


def _file_request(kind: str, path: str, mode: int, timeout_s: float) -> dict[str, Any]:
    return {"op": "file", "kind": kind, "path": path, "mode": mode, "timeout_s": timeout_s}


async def _push(stream: _Stream, end: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while True:
        chunk = await loop.sock_recv(end, _CHUNK)
        await stream.write(chunk)
        if not chunk:
            return


async def _pull(stream: _Stream, end: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while chunk := await stream.read():
        await loop.sock_sendall(end, chunk)
    end.shutdown(socket.SHUT_WR)


async def _result_of(answer: asyncio.Future[Frame]) -> ExecResult:
    return _result(await answer)


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
