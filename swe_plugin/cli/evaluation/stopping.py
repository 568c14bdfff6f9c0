"""Ctrl-C drains, a second one stops; SIGTERM stops at once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Stopping"]


class Stopping:
    """Hears of signals while a task runs.

    Args:
        drain: called at the first Ctrl-C.

    Attributes:
        signal: the last signal that was heard, or None.
    """

    def __init__(self, drain: Callable[[], None]) -> None:
        self._drain = drain
        self.signal: signal.Signals | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """While in here, the current task is cancelled by SIGTERM and by a second SIGINT."""
        loop, current = asyncio.get_running_loop(), asyncio.current_task()
        assert current is not None

        def heard(number: signal.Signals) -> None:
            again, self.signal = self.signal is not None, number
            if number is signal.SIGINT and not again:
                self._drain()
            else:
                current.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, heard, number)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
