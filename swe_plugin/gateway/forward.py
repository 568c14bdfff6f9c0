"""`forwarded`: a way from an environment's own loopback to the gateway, made of one command that stays connected.

So it works for every backend, opens no hole in any isolation, and ends with the environment. `inside` runs there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swe_plugin.errors import ScaffoldError
from swe_plugin.gateway.inside import CHUNK, CLOSE, CONNECTIONS, FRAME, OPEN

if TYPE_CHECKING:
    from swe_plugin.environments.base import Environment
    from swe_plugin.environments.connection import Connection

__all__ = ["Connect", "forwarded"]

Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Makes a connection to the gateway."""

_MESSAGE = 3 * CHUNK
_SOURCE = (Path(__file__).parent / "inside.py").read_text(encoding="utf-8")
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
    async with environment.connect(["python3", "-I", "-S", "-c", _SOURCE], timeout_s=timeout_s) as inside:
        link = _Link(inside, connect)
        tasks = [asyncio.ensure_future(work) for work in (link.pull(), link.push())]
        for task in tasks:
            task.add_done_callback(lambda done: _tell(done, failed))
        try:
            started: list[asyncio.Future[Any]] = [inside.ended, link.port]
            await asyncio.wait(started, return_when=asyncio.FIRST_COMPLETED)
            if not link.port.done():
                reason = (await inside.ended).stderr
                raise ScaffoldError(f"the forwarder does not start in the environment, it needs python3: {reason}")
            await _check(environment, link.port.result())
            yield link.port.result()
        finally:
            running: list[asyncio.Future[Any]] = [*tasks, *link.copying]
            for future in running:
                future.cancel()
            await asyncio.wait(running)
            link.close()


async def _check(environment: Environment, port: int) -> None:
    """Reach the forwarder as the agent will."""
    result = await environment.exec(["bash", "-c", _REACH, "bash", str(port)], cwd="/")
    if result.exit_code:
        reason = f"commands of this backend do not share a loopback ({result.stderr.strip()})"
        raise ScaffoldError(f"the forwarder cannot be reached in the environment: {reason}")


def _tell(done: asyncio.Future[None], failed: Callable[[BaseException], None]) -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        failed(error)


class _Link:
    """The frames of one environment."""

    def __init__(self, inside: Connection, connect: Connect) -> None:
        self._inside, self._connect = inside, connect
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._frames: asyncio.Queue[bytes] = asyncio.Queue(16)
        self.copying: set[asyncio.Future[None]] = set()
        self.port: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def pull(self) -> None:
        """Take frames and do what they say, until what comes is none: the agent can write there."""
        received = bytearray()
        while data := await self._inside.read():
            received += data
            while len(received) >= FRAME.size:
                connection, length = FRAME.unpack_from(received)
                end = FRAME.size + max(length, 0)
                if length > CHUNK:
                    return
                if len(received) < end:
                    break
                frame = bytes(received[FRAME.size : end])
                del received[:end]
                if self.port.done():
                    await self._handle(connection, length, frame)
                else:
                    self.port.set_result(connection)

    async def push(self) -> None:
        """Hand over frames, as many at once as there are."""
        while True:
            data = await self._frames.get()
            while len(data) < _MESSAGE and not self._frames.empty():
                data += self._frames.get_nowait()
            await self._inside.write(data)

    def close(self) -> None:
        """Close what is open to the gateway."""
        for writer in self._writers.values():
            writer.close()

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
