"""`Watchdog`: a dead agent-loop worker costs its running rollouts, never the step.

verl waits for prompts without a deadline and does not restart workers, so without this a killed worker hangs
the run. Death is noticed without asking: every worker holds one call open for as long as it lives
(`lifetime`), and Ray ends that call with an error when the process or its node is gone. A process that lives
but answers nothing for ``swe.failure.watchdog_s`` is killed and treated the same.

What cannot be survived is left alone: the death of vLLM, a trainer rank, the queue or the head node ends the
run through verl's own errors or through the circuit breaker.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import ray

__all__ = ["Watchdog", "check_all"]

logger = logging.getLogger(__name__)

_CAUSE_CHARS = 400
"""Ray's text goes on with general advice."""

_active: weakref.WeakSet[Watchdog] = weakref.WeakSet()


def check_all() -> None:
    """Run every watchdog of this process once. Cheap when nothing has happened; called at each poll of the
    replay buffer, which lives in the same process and thread as the manager."""
    for watchdog in list(_active):
        watchdog.check()


@dataclass(slots=True)
class _Watched:
    actor: Any
    lifetime: Any
    ping: Any = None
    heard: float = field(default_factory=time.monotonic)
    asked: float = 0.0


class Watchdog:
    """Watches the workers of one manager.

    Args:
        silence_s: seconds without an answer after which a worker that has answered before is killed.
        on_deaths: called with position -> cause of the workers that died since the last look: a node takes all of its
            own along.
    """

    def __init__(self, silence_s: float, on_deaths: Callable[[Mapping[int, str]], None]) -> None:
        self._silence_s = silence_s
        self._on_deaths = on_deaths
        self._watched: dict[int, _Watched] = {}
        _active.add(self)

    def watch(self, position: int, actor: Any) -> None:
        """Watch `actor`, which has answered at least once, from now on as the worker at `position`."""
        self._watched[position] = _Watched(actor, actor.lifetime.remote())

    def check(self) -> None:
        """Report every worker that is dead or has to be given up."""
        causes = {position: self._cause_of_death(watched) for position, watched in self._watched.items()}
        dead = {position: cause for position, cause in causes.items() if cause}
        for position, cause in dead.items():
            del self._watched[position]
            logger.error("agent-loop worker %d is gone: %s", position, cause)
        if dead:
            self._on_deaths(dead)

    def _cause_of_death(self, watched: _Watched) -> str:
        if ray.wait([watched.lifetime], timeout=0)[0]:
            return _error_of(watched.lifetime)
        now = time.monotonic()
        if watched.ping is not None and ray.wait([watched.ping], timeout=0)[0]:
            watched.ping, watched.heard = None, now
        if watched.ping is None:
            if now - watched.asked > self._silence_s / 4:
                watched.ping, watched.asked = watched.actor.ping.remote(), now
        elif now - watched.asked > self._silence_s:
            ray.kill(watched.actor)
            return f"no answer for {now - watched.heard:.0f} s (swe.failure.watchdog_s={self._silence_s:g}), killed"
        return ""


def _error_of(reference: Any) -> str:
    try:
        ray.get(reference)
    except ray.exceptions.RayError as error:
        return " ".join(f"{type(error).__name__}: {error}".split())[:_CAUSE_CHARS]
    return "it ended by itself"
