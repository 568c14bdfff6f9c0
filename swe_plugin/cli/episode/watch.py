"""`WatchedScaffold`: any scaffold, with somebody looking on while it works."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from swe_plugin.scaffolds.base import Episode, Scaffold
from swe_plugin.types import Message, Reply, Segment, StopReason, Task

if TYPE_CHECKING:
    from swe_plugin.environments.base import Environment
    from swe_plugin.policies.base import Policy

__all__ = ["Observer", "WatchedScaffold"]

_LOOK_EVERY_S = 0.05


class Observer(Protocol):
    """Sees an episode grow. All methods return at once."""

    def begin(self) -> None:
        """An environment is ready; the agent starts, or starts again after a failure."""

    def update(self, episode: Episode) -> None:
        """The episode may have grown since the last call; what it has is never taken away."""

    def end(self, stop: StopReason | None) -> None:
        """The agent ended: why, or None where it raised or was stopped from outside."""


class WatchedScaffold(Scaffold):
    """Runs `inner` unchanged and shows its episode: regularly, and always before the policy is asked.

    Args:
        inner: what really runs.
        observer: who looks on.
    """

    def __init__(self, inner: Scaffold, observer: Observer) -> None:
        self._inner, self._observer = inner, observer

    async def run(self, task: Task, environment: Environment, policy: Policy, episode: Episode) -> StopReason:
        """See `Scaffold.run`; raises and returns what `inner` does."""
        self._observer.begin()
        looking = asyncio.ensure_future(self._look(episode))
        stop: StopReason | None = None
        try:
            stop = await self._inner.run(task, environment, _Watched(policy, self._observer, episode), episode)
        finally:
            looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await looking
            self._observer.update(episode)
            self._observer.end(stop)
        return stop

    async def _look(self, episode: Episode) -> None:
        while True:
            self._observer.update(episode)
            await asyncio.sleep(_LOOK_EVERY_S)


class _Watched:
    """A policy before which everything so far has been shown."""

    def __init__(self, inner: Policy, observer: Observer, episode: Episode) -> None:
        self._inner, self._observer, self._episode = inner, observer, episode

    @property
    def segments(self) -> Sequence[Segment]:
        return self._inner.segments

    async def respond(self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] = ()) -> Reply:
        self._observer.update(self._episode)
        return await self._inner.respond(messages, tools=tools)
