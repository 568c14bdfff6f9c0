"""`HandOver`: what one process of a node started ahead of time is leased by another one of the same run.

Every pool that starts environments ahead listens on a socket in the run's pool directory. Who needs one asks those
who listen. A giver turns the environment into a parcel (`movable`), sends the descriptors and closes its own: from
then on the environment is nobody's but the taker's, and if either process is killed at any instant, the kernel closes
the descriptors that it had or was being sent, which ends the environment. The giver lets go of the image when
the taker has said that it holds it; what was given is never taken back.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
import logging
import os
import socket
import time
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from swe_plugin.environments.base import Environment, EnvironmentSpec
from swe_plugin.environments.lease import Lease
from swe_plugin.environments.movable import Movable, Parcel
from swe_plugin.environments.parking import Parking
from swe_plugin.environments.slot_file import Slot
from swe_plugin.errors import EnvironmentUnavailable

__all__ = ["HandOver", "spec_digest"]

logger = logging.getLogger(__name__)

_MESSAGE = 1 << 16
_DESCRIPTORS = 8
_ANSWER_S = 90.0
"""A giver may first have to wait for the start."""
_numbers = itertools.count()
_all: weakref.WeakSet[HandOver] = weakref.WeakSet()


def spec_digest(spec: EnvironmentSpec) -> str:
    """Equal for equal specs, in any process."""
    return hashlib.sha256(json.dumps(asdict(spec), sort_keys=True, default=repr).encode()).hexdigest()


class HandOver:
    """One pool's end.

    Args:
        directory: of the run's pools on this node.
        parking: what this pool started ahead.
    """

    def __init__(self, directory: Path, parking: Parking) -> None:
        self._directory, self._parking = directory, parking
        self._name = f"{os.getpid()}-{next(_numbers)}.sock"
        self._listener: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        _all.add(self)

    def listen(self) -> None:
        """Offer what is parked to other processes, until `close`. Idempotent."""
        if self._listener is None:
            self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._listener.setblocking(False)
            with _short_path(self._directory, self._name) as path:
                self._listener.bind(path)
            self._listener.listen(128)
            asyncio.get_running_loop().add_reader(self._listener, self._accept)

    async def close(self) -> None:
        """Stop listening; what is being given is given to the end. Idempotent."""
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
            (self._directory / self._name).unlink(missing_ok=True)
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def take(self, spec: EnvironmentSpec, environment: Environment) -> Lease | None:
        """Make `environment`, not started yet, the one that another process started ahead for `spec`.

        Returns:
            None if nobody has one; `environment` is as it was then.

        Raises:
            EnvironmentStartError: somebody had one, and it was lost on its way; `environment` has to be stopped.
        """
        for path in self._others():
            async with _connected(path) as peer:
                asked = time.perf_counter()
                answer, descriptors = await _ask(peer, {"op": "take", "label": spec.label, "spec": spec_digest(spec)})
                if descriptors:
                    slot, parcel = Slot(descriptors.pop(0)), Parcel(answer["state"], descriptors)
                    await _adopt(environment, parcel, slot, peer)
                    waited = time.perf_counter() - asked
                    hidden = max(float(answer["start_s"]) - waited, 0.0)
                    return Lease(environment, slot, 0.0, waited, hidden, float(answer["began"]))
        return None

    async def make_room(self) -> None:
        """Ask the other processes for a slot that only a parked environment holds."""
        for path in self._others():
            async with _connected(path) as peer:
                if (await _ask(peer, {"op": "room"}))[0].get("gave_way"):
                    return

    def _others(self) -> list[Path]:
        return [path for path in sorted(self._directory.glob("*.sock")) if path.name != self._name]

    def _accept(self) -> None:
        assert self._listener is not None
        with contextlib.suppress(OSError):  # it has gone again
            peer, _ = self._listener.accept()
            peer.setblocking(False)
            task = asyncio.ensure_future(self._serve(peer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, peer: socket.socket) -> None:
        with peer:
            try:
                request, _ = await _receive(peer)
                if request.get("op") == "room":
                    _send(peer, {"gave_way": self._parking.give_way()})
                elif request.get("op") == "take":
                    await self._give(peer, request)
            except (OSError, TimeoutError, EnvironmentUnavailable) as error:
                logger.warning("an environment could not be given to another process: %s", error)

    async def _give(self, peer: socket.socket, request: dict[str, Any]) -> None:
        offers = (spec for spec in self._parking.offers(request["label"]) if spec_digest(spec) == request["spec"])
        spec = next(offers, None)
        lease = await self._parking.take(spec) if spec is not None else None
        if lease is None:
            _send(peer, {})
            return
        try:
            assert isinstance(lease.environment, Movable)
            parcel = await lease.environment.give()
            state = {"state": parcel.state, "start_s": lease.start_s + lease.hidden_s, "began": lease.began}
            try:
                _send(peer, state, [lease.slot.fileno(), *parcel.descriptors])
            finally:
                parcel.close()
                lease.slot.leave()
            await _receive(peer)  # "taken", or the end
        finally:
            lease.slot.release()  # not sent
            await lease.environment.stop()


@contextlib.contextmanager
def _short_path(directory: Path, name: str) -> Iterator[str]:
    """A name for a socket that fits into the 108 bytes that its address may have."""
    fd = os.open(directory, os.O_PATH | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{name}"
    finally:
        os.close(fd)


@asynccontextmanager
async def _connected(path: Path) -> AsyncIterator[socket.socket | None]:
    """A connection, None if nobody listens (whose file is removed then)."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
        peer.setblocking(False)
        try:
            with _short_path(path.parent, path.name) as name:
                peer.connect(name)
        except ConnectionRefusedError:
            _remove(path)
            yield None
        except OSError:  # gone, or so busy that starting one is faster
            yield None
        else:
            yield peer


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


async def _ask(peer: socket.socket | None, request: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """One question; empty if the other side is gone or does not answer."""
    if peer is None:
        return {}, []
    try:
        _send(peer, request)
        return await _receive(peer)
    except (OSError, TimeoutError) as error:
        logger.warning("another process of this node does not answer: %s", error)
        return {}, []


async def _adopt(environment: Environment, parcel: Parcel, slot: Slot, peer: socket.socket | None) -> None:
    assert isinstance(environment, Movable)
    assert peer is not None
    try:
        await environment.take(parcel)
    except BaseException:
        slot.release()
        raise
    finally:
        parcel.close()
    with contextlib.suppress(OSError):  # the giver has died meanwhile: it needs no word
        _send(peer, {"op": "taken"})


def _send(peer: socket.socket, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
    """One message fits into an empty socket; nothing is sent before it was answered."""
    socket.send_fds(peer, [json.dumps(message).encode()], descriptors or [])


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _receive(peer: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """The next message; empty at the end of the stream."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    loop.add_reader(peer, _set, readable)
    try:
        async with asyncio.timeout(_ANSWER_S):
            await readable
    finally:
        loop.remove_reader(peer)
    data, descriptors, _, _ = socket.recv_fds(peer, _MESSAGE, _DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
    return json.loads(data) if data else {}, descriptors


def _stop_in_child() -> None:
    """A forked child must not keep a socket open behind which nobody answers."""
    for end in _all:
        if end._listener is not None:
            end._listener.close()


os.register_at_fork(after_in_child=_stop_in_child)
