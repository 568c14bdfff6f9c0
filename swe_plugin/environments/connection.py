"""`Connection`: a command whose stdin and stdout stay open, and how a backend has one that can only `exec`."""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from swe_plugin.environments.start import dropped

if TYPE_CHECKING:
    from swe_plugin.environments.base import Environment
    from swe_plugin.types import ExecResult

__all__ = ["Connection", "connected_by_exec"]

_RUN = 'mkdir -p -m 700 "$1" && mkfifo "$1/in" "$1/out" && exec 0<> "$1/in" 1<> "$1/out" && shift && exec "$@"'
_READ = 'until [ -p "$1/out" ]; do sleep 0.01; done; dd bs=65536 count=1 status=none < "$1/out" | base64 -w0'
_WRITE = 'until [ -p "$1/out" ]; do sleep 0.01; done; exec cat > "$1/in"'


@dataclass(frozen=True, slots=True)
class Connection:
    """A running command.

    Attributes:
        read: what it has written since, as soon as there is anything; empty when it has ended.
        write: feeds its stdin; returns when all of it is on its way, or nobody wants it.
        ended: its result, without stdout.
    """

    read: Callable[[], Awaitable[bytes]]
    write: Callable[[bytes], Awaitable[None]]
    ended: asyncio.Future[ExecResult]


@asynccontextmanager
async def connected_by_exec(
    environment: Environment, argv: Sequence[str], *, timeout_s: float
) -> AsyncIterator[Connection]:
    """`Environment.connect` for any backend: two FIFOs inside, and an `exec` for each message through them."""
    home = f"/tmp/.connection-{secrets.token_hex(8)}"  # noqa: S108 - inside

    def run(script: str, *words: str, stdin: bytes = b"") -> Coroutine[Any, Any, ExecResult]:
        return environment.exec(["bash", "-c", script, "bash", home, *words], cwd="/", timeout_s=timeout_s, stdin=stdin)

    ended = asyncio.ensure_future(run(_RUN, *argv))

    async def unless_ended(work: Coroutine[Any, Any, ExecResult]) -> str:
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait([task, ended], return_when=asyncio.FIRST_COMPLETED)
            return task.result().stdout if task.done() else ""
        finally:
            await dropped(task)

    async def read() -> bytes:
        return base64.b64decode(await unless_ended(run(_READ)))

    async def write(data: bytes) -> None:
        await unless_ended(run(_WRITE, stdin=data))

    try:
        yield Connection(read, write, ended)
    finally:
        await dropped(ended)
