"""The owner's end of the stream to one supervisor: requests out, answers matched by id."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from swe_plugin.environments.sandbox.zygote.frames import Decoder, Frame, pieces
from swe_plugin.errors import EnvironmentUnavailable

__all__ = ["Channel"]

_CHUNK = 120 << 10
"""Below what the C library maps anew at each read (mallopt(3), M_MMAP_THRESHOLD)."""
_CANCEL_WAIT_S = 10.0


class Channel:
    """One per sandbox. Never blocks the event loop.

    Args:
        sock: the owner's end; owned by the channel from now on.
        label: for error messages.
        unwrap: takes what arrives and returns what of it is the supervisor's; for transports that wrap it.
        first_id: above every number that was used on this stream.
    """

    def __init__(
        self, sock: socket.socket, label: str, *, unwrap: Callable[[bytes], bytes] = bytes, first_id: int = 1
    ) -> None:
        sock.setblocking(False)
        self._socket, self._label, self._unwrap = sock, label, unwrap
        self._ids = itertools.count(first_id)
        self._loop = asyncio.get_running_loop()
        self._first: asyncio.Future[Frame] = self._loop.create_future()
        self._answers = {0: self._first}
        self._unsent: deque[memoryview] = deque()
        self._decoder = Decoder()
        self._closed = asyncio.Event()
        self._loop.add_reader(sock, self._on_readable)

    @property
    def is_open(self) -> bool:
        """The sandbox has not gone."""
        return not self._closed.is_set()

    async def start(self, plan: dict[str, Any]) -> Frame:
        """Send the plan as the first frame and wait for the first answer, which has id 0."""
        self._send(plan)
        return await self._first

    def next_id(self) -> int:
        """A fresh number for `request`, for callers that refer to a request while it runs."""
        return next(self._ids)

    async def request(self, header: dict[str, Any], payload: bytes = b"", number: int | None = None) -> Frame:
        """Send one request and wait for its answer. Cancelling waits until the sandbox has ended the command.

        Raises:
            EnvironmentUnavailable: the sandbox is gone.
        """
        number = self.next_id() if number is None else number
        answer = self._expect(number)
        try:
            self._send({**header, "id": number}, payload)
            header, payload = await answer
        except asyncio.CancelledError:
            await self._cancel(number)
            raise
        finally:
            self._answers.pop(number, None)
        if "error" in header:
            raise EnvironmentUnavailable(f"{self._label}: {header['error']}")
        return header, payload

    async def wait_closed(self, timeout_s: float) -> bool:
        """Wait until the sandbox and its cgroups are gone; False if they are not in time."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closed.wait(), timeout_s)
        return self._closed.is_set()

    def detach(self) -> int:
        """Give the socket up, for another process to go on with; there must be no request in flight."""
        self._forget()
        return self._socket.detach()

    def close(self) -> None:
        """Let go of the socket. Requests in flight fail."""
        self._forget()
        self._fail()
        self._socket.close()

    def _expect(self, number: int) -> asyncio.Future[Frame]:
        if self._closed.is_set():
            raise EnvironmentUnavailable(f"{self._label}: the sandbox is gone")
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        return answer

    async def _cancel(self, number: int) -> None:
        """Tell the sandbox to end a command and wait until it has; further cancellations do not cut this short."""
        ended = asyncio.ensure_future(self._cancelled(number))
        while not ended.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([ended])

    async def _cancelled(self, number: int) -> None:
        with contextlib.suppress(EnvironmentUnavailable, TimeoutError):
            answer = self._expect(number)
            async with asyncio.timeout(_CANCEL_WAIT_S):
                self._send({"op": "cancel", "id": 0, "target": number})
                await answer
        self._answers.pop(number, None)

    def _send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        """Hand a frame to the kernel, at once if it takes it. Frames go out whole, whoever is cancelled meanwhile."""
        idle = not self._unsent
        self._unsent.extend(pieces(header, payload))
        if idle:
            self._flush()

    def _flush(self) -> None:
        try:
            while self._unsent:
                sent = self._socket.send(self._unsent[0])
                if sent == len(self._unsent[0]):
                    self._unsent.popleft()
                else:
                    self._unsent[0] = self._unsent[0][sent:]
        except BlockingIOError:
            self._loop.add_writer(self._socket, self._flush)
            return
        except ConnectionError:
            self._unsent.clear()  # nobody is on the other side: what is still to be read says more, then it ends
        except OSError:
            self._forget()
            self._fail()
            return
        self._loop.remove_writer(self._socket)

    def _on_readable(self) -> None:
        try:
            data = self._socket.recv(_CHUNK)
            for header, payload in self._decoder.feed(self._unwrap(data)):
                answer = self._answers.get(header["id"])
                if answer is not None and not answer.done():
                    answer.set_result((header, payload))
        except (BlockingIOError, InterruptedError):
            return
        except ConnectionError:
            data = b""  # the same as the end of the stream
        except BaseException:
            self._forget()
            self._fail()
            raise
        if not data:
            self._forget()
            self._fail()

    def _forget(self) -> None:
        """The loop looks at the socket no more. Idempotent."""
        self._unsent.clear()
        if self._socket.fileno() < 0:
            return
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)

    def _fail(self) -> None:
        self._closed.set()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(EnvironmentUnavailable(f"{self._label}: the sandbox is gone"))
                answer.exception()  # seen: not every waiter is still there
