"""Equal patches are graded once, and nobody suffers from who asked first."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from swe_plugin.errors import GraderError
from swe_plugin.grading.cache import GradeCache
from swe_plugin.types import Grade, GradingSpec, Task

TASK = Task("a", "statement", grading=GradingSpec(fail_to_pass=("t",)))


class Grading:
    """Counts gradings; each waits for `go`."""

    def __init__(self, error: Exception | None = None) -> None:
        self.begun = self.ended = 0
        self.go = asyncio.Event()
        self.error = error

    async def __call__(self) -> Grade:
        self.begun += 1
        try:
            await self.go.wait()
            if self.error:
                raise self.error
            return Grade(True, duration_s=2.0)
        finally:
            self.ended += 1


async def test_the_second_asker_gets_the_first_ones_verdict():
    cache, grading = GradeCache(), Grading()
    grading.go.set()
    first = await cache.get(TASK, "p", grading)
    second = await cache.get(dataclasses.replace(TASK, problem_statement="other words"), "p", grading)
    assert (first.cached, first.duration_s, second.cached, second.duration_s) == (False, 2.0, True, 0.0)
    assert (grading.begun, cache.hit_rate) == (1, 0.5)
    second.statuses["x"] = "changed"
    assert (await cache.get(TASK, "p", grading)).statuses == {}


async def test_other_patches_and_other_tests_are_graded_for_themselves():
    cache, grading = GradeCache(), Grading()
    grading.go.set()
    other = dataclasses.replace(TASK, grading=GradingSpec(fail_to_pass=("u",)))
    for task, patch in ((TASK, "p"), (TASK, "q"), (other, "p")):
        await cache.get(task, patch, grading)
    assert grading.begun == 3
    assert cache.hit_rate == 0.0


async def test_concurrent_askers_share_one_grading():
    cache, grading = GradeCache(), Grading()
    askers = [asyncio.create_task(cache.get(TASK, "p", grading)) for _ in range(5)]
    await asyncio.sleep(0)
    grading.go.set()
    grades = await asyncio.gather(*askers)
    assert grading.begun == 1
    assert [grade.cached for grade in grades] == [False, True, True, True, True]


async def test_a_failure_is_shared_by_those_who_wait_but_not_kept():
    cache, grading = GradeCache(), Grading(GraderError("broken"))
    grading.go.set()
    both = await asyncio.gather(*(cache.get(TASK, "p", grading) for _ in range(2)), return_exceptions=True)
    assert [str(error) for error in both] == ["broken", "broken"]
    with pytest.raises(GraderError):
        await cache.get(TASK, "p", grading)
    assert grading.begun == 2


async def test_a_cancelled_asker_leaves_the_grading_to_the_others():
    cache, grading = GradeCache(), Grading()
    first, second = (asyncio.create_task(cache.get(TASK, "p", grading)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    grading.go.set()
    assert (await second).resolved
    assert first.cancelled()
    assert grading.begun == 1


async def test_the_last_asker_takes_the_grading_along():
    cache, grading = GradeCache(), Grading()
    askers = [asyncio.create_task(cache.get(TASK, "p", grading)) for _ in range(2)]
    await asyncio.sleep(0)
    for asker in askers:
        asker.cancel()
    await asyncio.wait(askers)
    assert (grading.begun, grading.ended) == (1, 1)
    grading.go.set()
    assert (await cache.get(TASK, "p", grading)).resolved


async def test_who_asks_while_an_abandoned_grading_ends_begins_anew():
    cache, slow_end = GradeCache(), asyncio.Event()

    async def stuck() -> Grade:
        try:
            return await asyncio.Event().wait()
        finally:
            await slow_end.wait()

    first = asyncio.create_task(cache.get(TASK, "p", stuck))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0.01)
    grading = Grading()
    grading.go.set()
    assert (await cache.get(TASK, "p", grading)).resolved
    assert not first.done()
    slow_end.set()
    await asyncio.wait([first])
    assert first.cancelled()


async def test_old_verdicts_make_room():
    cache, grading = GradeCache(max_grades=1), Grading()
    grading.go.set()
    for patch in ("p", "q", "p"):
        await cache.get(TASK, patch, grading)
    assert grading.begun == 3
