"""`SlotQueue`: one capacity of a node, its reserved shares, and who waits for it in this process."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from swe_plugin.environments.share import Share, current_share
from swe_plugin.environments.slot_file import Slot, SlotFile

__all__ = ["SlotQueue"]

_BYTES = 1 << 20
"""Of the file, per capacity; the last one says that somebody waits, the one before that somebody is busy."""
_LEAST = 4
"""Of a smaller capacity nothing is reserved."""
_PAUSE_S = 0.05


class SlotQueue:
    """A number of slots; who waits for one *now* is always served before who wants one *ahead* of time.

    Training and evaluation each have slots that nobody else may use; nothing that is started ahead waits for either.
    Within a process and a share, first come, first served.

    Args:
        size: slots, at least 1.
        file: where they are counted; default one of this queue's own.
        number: of this capacity in `file`.
        reserved: part of `size`, at most 0.5, that is kept for training, and again for evaluation.
        brief: most hold a slot for moments, so one part is kept for both together.
    """

    def __init__(
        self, size: int, file: SlotFile | None = None, number: int = 0, reserved: float = 0.0, *, brief: bool = False
    ) -> None:
        self._size = size
        self._file = file or SlotFile()
        self._first = number * _BYTES
        kept = min(max(1, int(size * reserved)), size // 2) if reserved and size >= _LEAST else 0
        numbers = range(self._first, self._first + size)
        train, evaluation = (numbers[:kept], numbers[:kept]) if brief else (numbers[:kept], numbers[kept : 2 * kept])
        common = numbers[kept:] if brief else numbers[2 * kept :]
        self._usable = {
            Share.TRAIN: [*train, *common],
            Share.EVALUATION: [*evaluation, *common],
            Share.AHEAD: [*common],
        }
        self._lent = [*train] if brief else []
        self._waiting: dict[Share, deque[asyncio.Future[Slot]]] = {share: deque() for share in Share}
        self._short = self._busy = False

    @property
    def free(self) -> int:
        """Slots that nobody on this node holds."""
        return sum(not self._file.is_taken(self._first + i) for i in range(self._size))

    @property
    def short(self) -> bool:
        """Somebody on this node waits for a slot now."""
        return self._short or self._file.is_taken(self._mark)

    @property
    def busy(self) -> bool:
        """Somebody on this node called `set_busy`: whatever is kept for those who need a slot now may be needed."""
        return self._busy or self._file.is_taken(self._busy_mark)

    def set_busy(self, busy: bool) -> None:
        """Say whether this process has anything in progress that may need a slot at any time."""
        self._busy = busy
        self._file.mark(self._busy_mark, busy)

    def borrow(self) -> Slot | None:
        """A brief slot that is kept for others, if none of them has anything in progress. Not to be held for long."""
        return None if self.busy or self.short else self._file.take(self._lent)

    async def acquire(self, on_wait: Callable[[], object] = lambda: None) -> Slot:
        """Take a slot of `current_share`, waiting for it if need be.

        Args:
            on_wait: called once if there is none.
        """
        share = current_share()
        if not self._pending(share) and (slot := self._take(share)):
            return slot
        waiter: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        self._waiting[share].append(waiter)
        self._changed()
        on_wait()
        self._file.watch(self._serve)
        self._serve()  # it may have come before anybody watched
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                waiter.result().release()  # it had just been given
            raise
        finally:
            self._waiting[share].remove(waiter)
            self._changed()

    def acquire_blocking(self) -> Slot:
        """The same for a thread without an event loop."""
        while (slot := self._take(current_share())) is None:
            time.sleep(_PAUSE_S)
        return slot

    @property
    def _mark(self) -> int:
        return self._first + _BYTES - 1

    @property
    def _busy_mark(self) -> int:
        return self._first + _BYTES - 2

    def _pending(self, share: Share) -> bool:
        return any(not waiter.done() for waiter in self._waiting[share])

    def _take(self, share: Share) -> Slot | None:
        if share is Share.AHEAD and self.short:
            return None
        return self._file.take(self._usable[share])

    def _serve(self) -> None:
        """Give what is free to those who wait here."""
        for share, queue in self._waiting.items():
            for waiter in list(queue):
                if not waiter.done():
                    slot = self._take(share)
                    if slot is None:
                        break
                    waiter.set_result(slot)
            self._changed()

    def _changed(self) -> None:
        short = self._pending(Share.TRAIN) or self._pending(Share.EVALUATION)
        if short != self._short:
            self._short = short
            self._file.mark(self._mark, short)
        if not any(self._waiting.values()):
            self._file.unwatch(self._serve)
