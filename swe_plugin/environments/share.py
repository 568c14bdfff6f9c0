"""`Share`: on whose behalf something is started, so that none of them can take everything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum

__all__ = ["Share", "acting_for", "current_share"]


class Share(StrEnum):
    """Who draws from a capacity."""

    TRAIN = "train"
    EVALUATION = "val"
    AHEAD = "ahead"
    """What nobody waits for yet."""


_current: ContextVar[Share] = ContextVar("swe_share", default=Share.TRAIN)


def current_share() -> Share:
    """Of the running task or thread; `Share.TRAIN` unless it was set."""
    return _current.get()


@contextmanager
def acting_for(share: Share) -> Iterator[None]:
    """What is started in this block, tasks and `asyncio.to_thread` included, draws from `share`."""
    token = _current.set(share)
    try:
        yield
    finally:
        _current.reset(token)
