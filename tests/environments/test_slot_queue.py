"""Slots: who needs one now goes first, and none is lost whoever gives up waiting."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_plugin.environments.slot_queue import SlotQueue


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


async def test_who_needs_one_now_goes_before_who_came_earlier_for_later():
    slots, order = SlotQueue(1), []

    async def ask(name, ahead):
        await slots.acquire(ahead=ahead)
        order.append(name)

    await slots.acquire()
    waiting = []
    for name, ahead in (("a1", True), ("a2", True), ("n1", False), ("n2", False)):
        waiting.append(asyncio.ensure_future(ask(name, ahead)))
        await settle()
    assert slots.short == 2
    for _ in waiting:
        slots.release()
        await settle()
    assert order == ["n1", "n2", "a1", "a2"]
    slots.release()
    assert slots.free == 1


STEPS = st.lists(
    st.tuples(st.sampled_from(["now", "ahead", "release", "cancel", "settle"]), st.integers(0, 99)), max_size=60
)


@given(size=st.integers(1, 3), steps=STEPS)
def test_slots_are_never_lost_nor_made(size, steps):
    async def play():
        slots, waiting, held = SlotQueue(size), [], 0
        for step, number in steps:
            if step in ("now", "ahead"):
                waiting.append(asyncio.ensure_future(slots.acquire(ahead=step == "ahead")))
            elif step == "cancel" and waiting:
                waiting[number % len(waiting)].cancel()  # also one that has just been given its slot
            elif step == "release" and held:
                held -= 1
                slots.release()
            elif step == "settle":
                await settle()
            held += sum(task.done() and not task.cancelled() for task in waiting)
            waiting = [task for task in waiting if not task.done()]
            assert 0 <= slots.free <= size - held
        await settle()
        held += sum(task.done() and not task.cancelled() for task in waiting)
        waiting = [task for task in waiting if not task.done()]
        assert slots.free + held == size
        assert not (slots.free and waiting)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(play())


async def test_a_cancelled_waiter_that_had_been_served_passes_the_slot_on():
    slots = SlotQueue(1)
    await slots.acquire()
    first, second = (asyncio.ensure_future(slots.acquire()) for _ in range(2))
    await settle()
    slots.release()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await asyncio.wait_for(second, 1)
