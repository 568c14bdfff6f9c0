"""`forwarded`: a way from an environment's own loopback to the gateway, made of nothing but `exec`.

So it works for every backend, opens no hole in any isolation, and ends with the environment. `inside` runs there.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swe_plugin.errors import ScaffoldError
from swe_plugin.gateway.inside import CHUNK, CLOSE, CONNECTIONS, FRAME, MESSAGE, OPEN

if TYPE_CHECKING:
    from swe_plugin.environments.base import Environment
    from swe_plugin.types import ExecResult

__all__ = ["Connect", "forwarded"]

Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Makes a connection to the gateway."""

_SOURCE = (Path(__file__).parent / "inside.py").read_text(encoding="utf-8")
_FIRST = 'until [ -p "$1" ]; do sleep 0.01; done; exec cat "$1"'
_PUSH = 'exec cat > "$1"'
_REACH = 'exec 3<> "/dev/tcp/127.0.0.1/$1"'


@asynccontextmanager
async def forwarded(
    environment: Environment, connect: Connect, *, timeout_s: float, failed: Callable[[BaseException], None]
) -> AsyncIterator[int]:
    """Forward connections until the block ends; gives the port on the environment's loopback.

    Args:
        environment: needs ``python3`` and bash.
        connect: called for each connection.
        timeout_s: after which it ends by itself.
        failed: told if the environment is lost meanwhile. What the agent does to the forwarder is its own affair.

    Raises:
        ScaffoldError: the forwarder does not start there, or the environment's commands have a loopback each.
        EnvironmentUnavailable: the environment is dead.
    """
    link = _Link(environment, connect, timeout_s)
    tasks = [asyncio.ensure_future(work) for work in (link.serve(), link.pull(), link.push())]
    for task in tasks:
        task.add_done_callback(lambda done: _tell(done, failed))
    try:
        started: list[asyncio.Future[Any]] = [tasks[0], link.port]
        await asyncio.wait(started, return_when=asyncio.FIRST_COMPLETED)
        if not link.port.done():
            result = tasks[0].result()
            raise ScaffoldError(f"the forwarder does not start in the environment, it needs python3: {result.stderr}")
        await link.check()
        yield link.port.result()
    finally:
        running: list[asyncio.Future[Any]] = [*tasks, *link.copying]
        for future in running:
            future.cancel()
        await asyncio.wait(running)
        link.close()


def _tell(done: asyncio.Future[ExecResult], failed: Callable[[BaseException], None]) -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        failed(error)


class _Link:
    """The frames of one environment."""

    def __init__(self, environment: Environment, connect: Connect, timeout_s: float) -> None:
        self._environment, self._connect, self._timeout_s = environment, connect, timeout_s
        self._home = f"/tmp/.gateway-{secrets.token_hex(8)}"  # noqa: S108 - inside
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._frames: asyncio.Queue[bytes] = asyncio.Queue(16)
        self.copying: set[asyncio.Future[None]] = set()
        self.port: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def serve(self) -> ExecResult:
        """The forwarder's own process."""
        return await self._exec("python3", "-I", "-S", "-c", _SOURCE, self._home)

    async def check(self) -> None:
        """Reach the forwarder as the agent will.

        Raises:
            ScaffoldError: it cannot be reached.
        """
        result = await self._exec("bash", "-c", _REACH, "bash", str(self.port.result()))
        if result.exit_code:
            reason = f"commands of this backend do not share a loopback ({result.stderr.strip()})"
            raise ScaffoldError(f"the forwarder cannot be reached in the environment: {reason}")

    async def pull(self) -> ExecResult:
        """Take messages and do what their frames say."""
        number = 0
        while True:
            path = f"{self._home}/out.{number}"
            result = await (self._exec("cat", path) if number else self._exec("bash", "-c", _FIRST, "bash", path))
            if result.exit_code or result.truncated:
                return result
            for connection, length, data in _frames(result.stdout):
                if self.port.done():
                    await self._handle(connection, length, data)
                else:
                    self.port.set_result(connection)
            number += 1

    async def push(self) -> ExecResult:
        """Hand over frames, as many at once as there are."""
        while True:
            data = await self._frames.get()
            while len(data) < MESSAGE and not self._frames.empty():
                data += self._frames.get_nowait()
            result = await self._exec("bash", "-c", _PUSH, "bash", f"{self._home}/in", stdin=data)
            if result.exit_code:
                return result

    def close(self) -> None:
        """Close what is open to the gateway."""
        for writer in self._writers.values():
            writer.close()

    async def _exec(self, *argv: str, stdin: bytes = b"") -> ExecResult:
        return await self._environment.exec(argv, cwd="/", timeout_s=self._timeout_s, stdin=stdin)

    async def _handle(self, connection: int, length: int, data: bytes) -> None:
        writer = self._writers.get(connection)
        if writer is None:
            if length == OPEN and len(self._writers) < CONNECTIONS:
                reader, self._writers[connection] = await self._connect()
                copy = asyncio.ensure_future(self._copy(connection, reader))
                self.copying.add(copy)
                copy.add_done_callback(self.copying.discard)
        elif length == CLOSE:
            writer.close()
        else:
            with contextlib.suppress(ConnectionError):  # closed on the other side, which `_copy` tells
                writer.write(data)
                await writer.drain()

    async def _copy(self, connection: int, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(CHUNK):
                await self._frames.put(FRAME.pack(connection, len(data)) + data)
        self._writers.pop(connection).close()
        await self._frames.put(FRAME.pack(connection, CLOSE))


def _frames(line: str) -> Iterator[tuple[int, int, bytes]]:
    """Connection, length and data of each frame in a message; what is no frame ends it: the agent can write there."""
    try:
        message = base64.b64decode(line, validate=False)
    except ValueError:
        return
    position = 0
    while position + FRAME.size <= len(message):
        connection, length = FRAME.unpack_from(message, position)
        position += FRAME.size
        data = message[position : position + max(length, 0)]
        if len(data) < length:
            return
        position += len(data)
        yield connection, length, data
