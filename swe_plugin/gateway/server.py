"""`Gateway`: one per worker; serves the sessions of all its rollouts on one port of the loopback."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from swe_plugin.errors import PluginError
from swe_plugin.gateway.errors import ApiError
from swe_plugin.gateway.forward import forwarded
from swe_plugin.gateway.session import Session

if TYPE_CHECKING:
    from swe_plugin.environments.base import Environment
    from swe_plugin.policies.base import Policy
    from swe_plugin.scaffolds.base import Episode

__all__ = ["Gateway"]

logger = logging.getLogger(__name__)

_BACKLOG = 2048
_ENDED = 1024


class Gateway:
    """Listens from the first rollout on until `close`, on a port that the system chooses.

    A request needs the key of a rollout that runs. A connection that comes out of an environment (`inside`) is good
    for the key of its own rollout only.
    """

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._ended: dict[str, Session] = {}
        self._bound: dict[int, Session] = {}
        """Port of a forwarded connection's end here -> its rollout."""
        self._port = 0
        self._server: Any = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """For clients in a process of this machine, while a session is open."""
        return f"http://127.0.0.1:{self._port}/v1"

    @asynccontextmanager
    async def open(self, policy: Policy, episode: Episode, *, max_calls: int) -> AsyncIterator[Session]:
        """One rollout's session; see `Session` for the arguments.

        Raises:
            PluginError: the extra ``gateway`` is not installed.
        """
        self._listen()
        session = Session(policy, episode, max_calls=max_calls)
        self._sessions[session.key] = session
        try:
            yield session
        finally:
            self._ended[session.key] = self._sessions.pop(session.key)
            if len(self._ended) > _ENDED:
                del self._ended[next(iter(self._ended))]
            await session.close()

    @asynccontextmanager
    async def inside(self, environment: Environment, session: Session, *, timeout_s: float) -> AsyncIterator[str]:
        """The URL for clients inside an environment, which may be without network: a port of its own loopback.

        Args:
            environment: needs ``python3``.
            session: whose key alone is accepted there.
            timeout_s: after which it ends by itself.
        """
        connect = self._connect(session)
        async with forwarded(environment, connect, timeout_s=timeout_s, failed=session.fail) as port:
            yield f"http://127.0.0.1:{port}/v1"

    async def close(self) -> None:
        """Stop listening. Idempotent."""
        serving, self._serving = self._serving, None
        if serving is not None:
            self._server.should_exit = True
            await asyncio.wait([serving])

    def _listen(self) -> None:
        if self._serving is not None and not self._serving.done():
            return
        listener = socket.socket(proto=socket.IPPROTO_TCP)  # without which asyncio sets no TCP_NODELAY
        listener.bind(("127.0.0.1", 0))
        listener.listen(_BACKLOG)
        self._port = listener.getsockname()[1]
        self._server = _server(self._find)
        self._serving = asyncio.get_running_loop().create_task(self._server.serve(sockets=[listener]))

    def _find(self, request: Any) -> Session:
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        session = self._sessions.get(key) if scheme.lower() == "bearer" else None
        bound = self._bound.get(request.client.port)
        if session is None or (bound is not None and bound is not session):
            refusal = ApiError(401, "the key is not one of a rollout that runs here", "invalid_api_key")
            for concerned in filter(None, (bound, self._ended.get(key))):
                concerned.note(str(refusal))
            raise refusal
        return session

    def _connect(self, session: Session) -> Any:
        async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            end = socket.socket(proto=socket.IPPROTO_TCP)
            end.setblocking(False)
            end.bind(("127.0.0.1", 0))
            port = end.getsockname()[1]
            self._bound[port] = session  # before it is connected: no request is served without
            try:
                await asyncio.get_running_loop().sock_connect(end, ("127.0.0.1", self._port))
                reader, writer = await asyncio.open_connection(sock=end)
            except BaseException:
                del self._bound[port]
                end.close()
                raise
            asyncio.ensure_future(writer.wait_closed()).add_done_callback(lambda done: self._unbind(port, done))
            return reader, writer

        return connect

    def _unbind(self, port: int, closed: asyncio.Future[None]) -> None:
        self._bound.pop(port, None)
        if not closed.cancelled():
            closed.exception()  # a connection that broke is closed as well


def _server(find: Any) -> Any:
    try:
        import uvicorn

        from swe_plugin.gateway.app import build_app
    except ImportError as error:
        raise PluginError(f"an agent that calls in needs pip install 'swe-plugin[gateway]' ({error})") from error

    class Server(uvicorn.Server):
        """Signals are the host process's business."""

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    config = uvicorn.Config(
        build_app(find), lifespan="off", log_config=None, access_log=False, ws="none", backlog=_BACKLOG,
        timeout_keep_alive=60, timeout_graceful_shutdown=5,
        proxy_headers=False,  # by which a client could pass for another one
    )  # fmt: skip
    return Server(config)
