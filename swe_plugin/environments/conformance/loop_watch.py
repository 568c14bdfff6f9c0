"""`LoopWatch`: how long a call held the event loop, and which one it was."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

__all__ = ["LoopWatch"]

_BEAT_S = 0.005
_LOOK_AFTER_S = 0.1


class LoopWatch:
    """``async with`` it around what must not block.

    A loaded machine makes every loop late. So what counts is the time in which the loop's thread *slept* in a call:
    neither running nor waiting for a processor (``/proc/thread-self/schedstat``).

    Attributes:
        worst_s: longest time that one call held the loop so, in seconds.
        where: stack of the thread while that call ran, empty if nobody looked in time.
    """

    def __init__(self) -> None:
        self.worst_s = 0.0
        self.where = ""
        self._stack = ""
        self._beaten_at = time.monotonic()
        self._over = threading.Event()

    async def __aenter__(self) -> Self:
        """Begin."""
        self._beating = asyncio.get_running_loop().create_task(self._beat())
        self._looking = threading.Thread(target=self._look, args=(threading.get_ident(),), daemon=True)
        self._looking.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End."""
        await asyncio.sleep(2 * _BEAT_S)  # the last call counts too
        self._beating.cancel()
        self._over.set()
        self._looking.join()

    async def _beat(self) -> None:
        while True:
            began, awake = time.monotonic(), _awake_s()
            self._beaten_at, self._stack = began, ""
            await asyncio.sleep(_BEAT_S)
            slept_s = time.monotonic() - began - _BEAT_S - (_awake_s() - awake)
            if slept_s > self.worst_s:
                self.worst_s, self.where = slept_s, self._stack

    def _look(self, thread: int) -> None:
        while not self._over.wait(_LOOK_AFTER_S / 4):
            frame: FrameType | None = sys._current_frames().get(thread)
            if frame and not self._stack and time.monotonic() - self._beaten_at > _LOOK_AFTER_S:
                self._stack = "".join(traceback.format_stack(frame))


def _awake_s() -> float:
    """Seconds that the calling thread has spent running or ready to run."""
    running_ns, ready_ns, _ = Path("/proc/thread-self/schedstat").read_text().split()
    return (int(running_ns) + int(ready_ns)) * 1e-9
