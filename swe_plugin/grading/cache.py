"""Equal patches to one task are graded once."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from swe_plugin.types import Grade, Task

if TYPE_CHECKING:
    from asyncio import Task as AsyncTask

__all__ = ["GradeCache"]


class GradeCache:
    """Grades by (what the task's grading depends on, patch). Only verdicts are kept, never failures.

    Concurrent askers of one key share one grading, and its failure if it fails. A grading runs as a task of its
    own: an asker that is cancelled does not take it from the others, and the last one to go takes it along.

    Args:
        max_grades: verdicts kept; the least recently used one goes first.

    Attributes:
        hits: answers that needed no grading of their own.
        misses: gradings begun.
    """

    def __init__(self, max_grades: int = 20_000) -> None:
        self._max_grades = max_grades
        self._kept: OrderedDict[str, Grade] = OrderedDict()
        self._flights: dict[str, _Flight] = {}
        self.hits = self.misses = 0

    @property
    def hit_rate(self) -> float:
        """Share of answers that needed no grading; 0.0 before the first."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else 0.0

    async def get(self, task: Task, patch: str, grade: Callable[[], Coroutine[Any, Any, Grade]]) -> Grade:
        """The verdict on `patch`, from memory, from a grading in progress, or from ``grade()``.

        Raises:
            Exception: whatever ``grade()`` raises.
        """
        key = _key(task, patch)
        if (kept := self._kept.get(key)) is not None:
            self.hits += 1
            self._kept.move_to_end(key)
            return _copy(kept, cached=True)
        flight = self._flights.get(key)
        joined = flight is not None
        if flight is None:
            flight = self._flights[key] = _Flight(asyncio.ensure_future(grade()))
            flight.task.add_done_callback(partial(self._landed, key, flight))
        self.hits, self.misses = self.hits + joined, self.misses + (not joined)
        return _copy(await self._wait(key, flight), cached=joined)

    async def _wait(self, key: str, flight: _Flight) -> Grade:
        flight.askers += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.askers -= 1
            if not flight.askers and not flight.task.done():
                self._end(key, flight)  # who asks from now on begins anew
                flight.task.cancel()
                await asyncio.wait([flight.task])  # its environment is gone before we are

    def _end(self, key: str, flight: _Flight) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]

    def _landed(self, key: str, flight: _Flight, task: AsyncTask[Grade]) -> None:
        self._end(key, flight)
        if not task.cancelled() and task.exception() is None:
            self._kept[key] = task.result()
            if len(self._kept) > self._max_grades:
                self._kept.popitem(last=False)


@dataclass(slots=True)
class _Flight:
    """A grading in progress and the number of its askers."""

    task: AsyncTask[Grade]
    askers: int = 0


def _copy(grade: Grade, *, cached: bool) -> Grade:
    duration_s = 0.0 if cached else grade.duration_s
    return dataclasses.replace(grade, statuses=dict(grade.statuses), duration_s=duration_s, cached=cached)


def _key(task: Task, patch: str) -> str:
    judged_by = [dataclasses.asdict(task.image), dataclasses.asdict(task.grading), task.base_commit, patch]
    return hashlib.sha256(json.dumps(judged_by, sort_keys=True).encode()).hexdigest()
