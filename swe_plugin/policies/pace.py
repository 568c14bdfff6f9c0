"""`Pace`: no more calls a minute than a provider allows, over all rollouts of an event loop."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

__all__ = ["Pace"]

_next: WeakKeyDictionary[asyncio.AbstractEventLoop, float] = WeakKeyDictionary()
"""When the next call may begin, in the loop's time."""


class Pace:
    """Calls begin evenly spaced, in the order in which they were asked for.

    Args:
        per_minute: calls; 0: no limit.
    """

    def __init__(self, per_minute: float) -> None:
        self._gap_s = 60.0 / per_minute if per_minute > 0 else 0.0

    async def turn(self) -> None:
        """Wait until it is this call's turn."""
        if not self._gap_s:
            return
        loop = asyncio.get_running_loop()
        begin = max(loop.time(), _next.get(loop, 0.0))
        _next[loop] = begin + self._gap_s
        await asyncio.sleep(begin - loop.time())
