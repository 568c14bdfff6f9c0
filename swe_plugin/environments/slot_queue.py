"""`SlotQueue`: a semaphore whose waiters are of two kinds, those who need it now and those who come first."""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["SlotQueue"]


class SlotQueue:
    """A number of slots; who waits for one *now* is always served before who wants one *ahead* of time.

    Within a kind, first come, first served.

    Args:
        size: slots, at least 1.
    """

    def __init__(self, size: int) -> None:
        self._free = size
        self._now: deque[asyncio.Future[None]] = deque()
        self._ahead: deque[asyncio.Future[None]] = deque()

    @property
    def free(self) -> int:
        """Slots that nobody holds."""
        return self._free

    @property
    def short(self) -> int:
        """How many wait for a slot now."""
        return sum(not waiter.done() for waiter in self._now)

    async def acquire(self, *, ahead: bool = False) -> None:
        """Take a slot, waiting for it if need be.

        Args:
            ahead: let everybody else go first.
        """
        if self._free and not self.short and not (ahead and self._ahead):
            self._free -= 1
            return
        queue = self._ahead if ahead else self._now
        waiter = asyncio.get_running_loop().create_future()
        queue.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.release()  # it had just been given
            raise
        finally:
            queue.remove(waiter)

    def release(self) -> None:
        """Give a slot back; the next in line has it at once."""
        for queue in (self._now, self._ahead):
            for waiter in queue:
                if not waiter.done():
                    waiter.set_result(None)
                    return
        self._free += 1
