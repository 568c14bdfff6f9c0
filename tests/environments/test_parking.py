"""What is started ahead: handed out once, never in anybody's way, never left behind."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from swe_plugin.environments import EnvironmentLimits, EnvironmentPool, EnvironmentSpec, Slots
from swe_plugin.errors import EnvironmentStartError
from swe_plugin.types import Image

from .dummies import Factory


def spec(name="a@0", **limits):
    return EnvironmentSpec(Image(), EnvironmentLimits(start_timeout_s=0.5, **limits), label=name)


async def nothing(environment):
    """No set-up."""


def wanted(*names, ready=nothing):
    return [(spec(name), ready) for name in names]


async def settled(pool, n):
    """Wait until `n` environments stand ready."""
    async with asyncio.timeout(5):
        while sum(parked.task.done() for parked in pool._parking._all()) < n:
            await asyncio.sleep(0.005)


async def test_a_lease_takes_what_was_started_for_it_and_waits_for_nothing():
    factory, set_up = Factory(start_s=0.05), []

    async def ready(environment):
        set_up.append(environment)

    pool = EnvironmentPool(factory, Slots(start=2, running=2))
    pool.prewarm(wanted("a@0", "b@0", ready=ready))
    await settled(pool, 2)
    async with pool.lease(spec("b@0")) as lease:
        assert lease.environment is factory.made[1]
        assert set_up == factory.made
        assert lease.hidden_s >= 0.05
        assert lease.start_s < lease.hidden_s
        assert (pool.parked, pool.in_use) == (1, 1)
    assert [environment.spec.label for environment in factory.left] == ["a@0"]
    await pool.cool()
    assert factory.left == []
    assert pool._use["running"].free == 2


async def test_each_is_handed_out_once_and_only_for_what_it_was_started_for():
    factory = Factory()
    pool = EnvironmentPool(factory, Slots())
    pool.prewarm(wanted("a@0"))
    await settled(pool, 1)
    async with pool.lease(spec("a@0", memory_mib=7)) as other, pool.lease(spec("b@0")) as stranger:
        assert {other.environment, stranger.environment}.isdisjoint(factory.made[:1])
        async with pool.lease(spec("a@0")) as first, pool.lease(spec("a@0")) as second:
            assert first.environment is factory.made[0]
            assert second.environment is not first.environment
    assert factory.left == []


async def test_what_is_still_starting_is_waited_for_and_only_the_rest_counts():
    factory = Factory(start_s=0.2)
    pool = EnvironmentPool(factory, Slots())
    pool.prewarm(wanted("a@0"))
    await asyncio.sleep(0.1)
    async with pool.lease(spec()) as lease:
        assert len(factory.made) == 1
        assert 0 < lease.start_s < 0.2
        assert lease.hidden_s > 0


async def test_what_has_not_begun_is_started_by_the_lease_without_queueing_behind_the_others():
    factory = Factory(start_s=0.05)
    pool = EnvironmentPool(factory, Slots(start=1))
    pool.prewarm(wanted(*(f"x@{i}" for i in range(20))))
    async with asyncio.timeout(0.5), pool.lease(spec("x@19")) as lease:
        assert lease.hidden_s == 0
        assert len(factory.made) <= 3
    await pool.cool()
    assert factory.left == []


async def test_a_full_house_makes_room_for_who_needs_it_now():
    factory = Factory()
    pool = EnvironmentPool(factory, Slots(start=4, running=2))
    pool.prewarm(wanted("a@0", "b@0", "c@0"))  # the third waits for a slot
    await settled(pool, 2)
    async with asyncio.timeout(5), pool.lease(spec("val@0")), pool.lease(spec("val@1")):
        assert {environment.spec.label for environment in factory.left} == {"val@0", "val@1"}
    await pool.cool()
    assert factory.left == []
    assert pool._use["running"].free == 2


async def test_one_that_is_starting_goes_as_soon_as_it_is_ready_if_its_slot_is_needed():
    factory = Factory(start_s=0.1)
    pool = EnvironmentPool(factory, Slots(start=4, running=1))
    pool.prewarm(wanted("a@0"))
    await asyncio.sleep(0.03)
    async with asyncio.timeout(5), pool.lease(spec("val@0")) as lease:
        assert lease.wait_s > 0
        assert pool.parked == 0
    assert factory.left == []


async def test_what_is_ahead_starts_in_all_slots_while_no_environment_is_in_use():
    for in_use, at_once in ((0, 4), (1, 3)):
        factory = Factory(start_s=0.2)
        pool = EnvironmentPool(factory, Slots(start=4, reserved=0.1))
        async with AsyncExitStack() as stack:
            for _ in range(in_use):
                await stack.enter_async_context(pool.lease(spec("now@0")))
            pool.prewarm(wanted(*(f"{n}@0" for n in range(8))))
            await asyncio.sleep(0.1)
            assert len(factory.made) == in_use + at_once
            await pool.cool()
        assert factory.left == []
        assert pool._start.free == 4


async def test_one_start_slot_is_always_kept_from_the_making_of_images(monkeypatch):
    factory = Factory()

    async def slow(environment):
        await asyncio.sleep(0.2)

    pool = EnvironmentPool(factory, Slots(start=4, reserved=0.1))
    monkeypatch.setattr("swe_plugin.environments.dummy.DummyEnvironment.prepare", slow)
    pool.prewarm(wanted(*(f"{n}@0" for n in range(8))))
    await asyncio.sleep(0.1)
    assert len(factory.made) == 3
    monkeypatch.undo()
    async with pool.lease(spec("now@0")) as lease:
        assert lease.wait_s < 0.05
    await pool.cool()
    assert pool._start.free == 4


async def test_a_node_that_cannot_be_told_costs_no_environment(monkeypatch, caplog):
    factory = Factory()
    pool = EnvironmentPool(factory, Slots(start=4, running=4))

    def full(*_):
        raise OSError("no locks available")

    monkeypatch.setattr("swe_plugin.environments.slot_file.SlotFile.mark", full)
    async with pool.lease(spec()):
        assert pool.in_use == 1
    assert (pool.in_use, factory.left, pool._use["running"].free) == (0, [], 4)
    assert "could not be told" in caplog.text


async def test_the_dead_are_not_handed_out():
    factory = Factory()
    pool = EnvironmentPool(factory, Slots())
    pool.prewarm(wanted("a@0"))
    await settled(pool, 1)
    factory.made[0].kill()
    async with pool.lease(spec()) as lease:
        assert lease.environment is factory.made[1]
    await pool.cool()
    assert factory.left == []


async def test_a_failure_ahead_of_time_is_the_leases_only_if_it_repeats(caplog):
    factory = Factory(fail_start="no such image")
    pool = EnvironmentPool(factory, Slots(start=1, running=1))
    pool.prewarm(wanted("a@0"))
    await settled(pool, 1)
    with pytest.raises(EnvironmentStartError, match="no such image"):
        async with pool.lease(spec()):
            pass
    assert len(factory.made) == 2
    assert "could not be started ahead of time" in caplog.text
    assert pool._use["running"].free == pool._start.free == 1


async def test_a_failing_set_up_leaves_nothing():
    async def ready(environment):
        raise RuntimeError("no git")

    factory = Factory()
    pool = EnvironmentPool(factory, Slots(running=1))
    pool.prewarm(wanted("a@0", ready=ready))
    await settled(pool, 1)
    assert factory.left == []
    async with pool.lease(spec()) as lease:
        assert lease.hidden_s == 0
    assert pool._use["running"].free == 1


@pytest.mark.parametrize("delay", [0, 0.02, 0.08])
async def test_a_lease_that_is_cancelled_leaves_nothing(delay):
    factory = Factory(start_s=0.05)
    pool = EnvironmentPool(factory, Slots(running=1))
    pool.prewarm(wanted("a@0"))
    await asyncio.sleep(0.01)

    async def use():
        async with pool.lease(spec()):
            await asyncio.sleep(9)

    task = asyncio.ensure_future(use())
    await asyncio.sleep(delay)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await pool.cool()
    assert factory.left == []
    assert pool._use["running"].free == 1


async def test_closing_in_the_middle_of_a_start_leaves_nothing():
    factory = Factory(start_s=0.2)
    pool = EnvironmentPool(factory, Slots(start=1, running=4))
    pool.prewarm(wanted("a@0", "b@0", "c@0"))
    await asyncio.sleep(0.05)
    await pool.cool()
    await pool.cool()
    assert (factory.left, pool.parked, pool._start.free, pool._use["running"].free) == ([], 0, 1, 4)
