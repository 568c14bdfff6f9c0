"""Slots: who needs one now goes first, shares are kept, and none is lost whoever gives up or dies."""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_plugin.environments.leases import reap
from swe_plugin.environments.share import Share, acting_for
from swe_plugin.environments.slot_file import Slot, SlotFile, pool_directory
from swe_plugin.environments.slot_queue import SlotQueue

FORK = multiprocessing.get_context("fork")


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


async def get(slots, share=Share.TRAIN):
    with acting_for(share):
        return await slots.acquire()


async def refused(slots, share):
    """Whether there is no slot for this share now."""
    waiter = asyncio.ensure_future(get(slots, share))
    await settle()
    if waiter.cancel():
        with contextlib.suppress(asyncio.CancelledError):
            await waiter
        return True
    waiter.result().release()
    return False


async def test_who_needs_one_now_goes_before_who_came_earlier_for_later():
    slots, order = SlotQueue(1), []

    async def ask(name, share):
        slot = await get(slots, share)
        order.append(name)
        return slot

    held, waiting = await slots.acquire(), []
    for name, share in (("a1", Share.AHEAD), ("a2", Share.AHEAD), ("n1", Share.TRAIN), ("n2", Share.EVALUATION)):
        waiting.append(asyncio.ensure_future(ask(name, share)))
        await settle()
    assert slots.short
    for number in range(4):
        held.release()
        await settle()
        assert len(order) == number + 1
        held = next(task.result() for task in waiting if task.done() and task.result().fileno() >= 0)
    assert order == ["n1", "n2", "a1", "a2"]
    held.release()
    assert slots.free == 1


@pytest.mark.parametrize(("size", "reserved", "kept"), [(16, 0.25, 4), (256, 1 / 16, 16), (4, 1 / 16, 1), (3, 0.25, 0)])
async def test_no_share_takes_what_is_kept_for_another(size, reserved, kept):
    most = {Share.TRAIN: size - kept, Share.EVALUATION: size - kept, Share.AHEAD: size - 2 * kept}
    for greedy, limit in most.items():
        slots = SlotQueue(size, reserved=reserved)
        held = [await get(slots, greedy) for _ in range(limit)]
        assert await refused(slots, greedy)
        for other in {Share.TRAIN, Share.EVALUATION} - {greedy}:
            assert await refused(slots, other) is (kept == 0)
        for slot in held:
            slot.release()
        assert slots.free == size


async def test_of_slots_that_are_held_briefly_one_part_is_kept_from_what_is_ahead():
    most = {Share.TRAIN: 4, Share.EVALUATION: 4, Share.AHEAD: 3}
    for greedy, limit in most.items():
        slots = SlotQueue(4, reserved=1 / 16, brief=True)
        slots.set_busy(True)
        held = [await get(slots, greedy) for _ in range(limit)]
        assert await refused(slots, greedy)
        for other in {Share.TRAIN, Share.EVALUATION} - {greedy}:
            assert await refused(slots, other) is (limit == 4)
        for slot in held:
            slot.release()


async def test_brief_slots_that_are_kept_are_lent_while_nobody_on_the_node_is_busy(tmp_path):
    here, there = (SlotQueue(4, SlotFile(tmp_path), reserved=1 / 16, brief=True) for _ in range(2))
    ahead = [await get(here, Share.AHEAD) for _ in range(3)]
    there.set_busy(True)
    assert here.busy
    assert here.borrow() is None
    there.set_busy(False)
    assert await refused(here, Share.AHEAD)  # it may take long: an image is to be built
    with here.borrow():
        assert here.free == 0
        assert here.borrow() is None
        waiter = asyncio.ensure_future(get(there, Share.TRAIN))
        await settle()
        ahead.pop().release()
        (await asyncio.wait_for(waiter, 5)).release()
    for slot in ahead:
        slot.release()
    here.set_busy(True)
    assert there.busy
    assert SlotQueue(4, reserved=1 / 4).borrow() is None


STEPS = st.lists(st.tuples(st.sampled_from([*Share, "release", "cancel", "settle"]), st.integers(0, 99)), max_size=60)


@given(size=st.integers(1, 9), reserved=st.sampled_from([0.0, 0.2]), steps=STEPS)
def test_slots_are_never_lost_nor_made(size, reserved, steps):
    async def play():
        slots, waiting, held = SlotQueue(size, reserved=reserved), [], []
        for step, number in steps:
            if step in list(Share):
                waiting.append(asyncio.ensure_future(get(slots, Share(step))))
            elif step == "cancel" and waiting:
                waiting[number % len(waiting)].cancel()  # also one that has just been given its slot
            elif step == "release" and held:
                held.pop(number % len(held)).release()
            elif step == "settle":
                await settle()
            held += [task.result() for task in waiting if task.done() and not task.cancelled()]
            waiting = [task for task in waiting if not task.done()]
            assert 0 <= slots.free <= size - len(held)
        await settle()
        held += [task.result() for task in waiting if task.done() and not task.cancelled()]
        waiting = [task for task in waiting if not task.done()]
        assert slots.free + len(held) == size
        assert not (slots.free and waiting and not reserved)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert not slots.short

    asyncio.run(play())


async def test_a_cancelled_waiter_that_had_been_served_passes_the_slot_on():
    slots = SlotQueue(1)
    held = await slots.acquire()
    first, second = (asyncio.ensure_future(slots.acquire()) for _ in range(2))
    await settle()
    held.release()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await asyncio.wait_for(second, 5)


def hold(scope, wanted, ready):
    """In another process: take `wanted` slots of three and stay."""
    slots = SlotQueue(3, SlotFile(pool_directory(scope)))
    held = [slots.acquire_blocking() for _ in range(wanted)]
    ready.send(len(held))
    signal.pause()


@contextlib.contextmanager
def holder(scope, wanted):
    here, there = FORK.Pipe()
    process = FORK.Process(target=hold, args=(scope, wanted, there), daemon=True)
    process.start()
    assert here.recv() == wanted
    try:
        yield process
    finally:
        process.kill()
        process.join()


async def test_all_processes_of_a_node_count_together_and_the_dead_hold_nothing():
    slots = SlotQueue(3, SlotFile(pool_directory("t1")))
    with holder("t1", 2) as process:
        assert slots.free == 1
        own = await slots.acquire()
        waiter = asyncio.ensure_future(slots.acquire())
        await asyncio.sleep(0.05)
        assert not waiter.done()
        process.kill()
        other = await asyncio.wait_for(waiter, 5)
    assert slots.free == 1
    own.release()
    other.release()


async def test_who_starts_ahead_sees_who_waits_in_another_process():
    file = SlotFile(pool_directory("t2"))
    slots, elsewhere = SlotQueue(1, file), SlotQueue(1, SlotFile(pool_directory("t2")))
    held = await slots.acquire()
    ahead = asyncio.ensure_future(get(slots, Share.AHEAD))
    now = asyncio.ensure_future(elsewhere.acquire())
    await settle()
    held.release()
    (await asyncio.wait_for(now, 5)).release()
    await asyncio.wait_for(ahead, 5)


async def test_a_slot_can_be_sent_and_is_free_when_the_last_who_has_it_lets_go():
    slots = SlotQueue(1)
    slot = await slots.acquire()
    ours, theirs = socket.socketpair()
    socket.send_fds(ours, [b"x"], [slot.fileno()])
    slot.leave()
    assert slots.free == 0  # it is on its way
    Slot(socket.recv_fds(theirs, 1, 1)[1][0]).release()
    assert slots.free == 1


async def test_a_forked_child_keeps_no_slot():
    slots = SlotQueue(1)
    slot = await slots.acquire()
    child = os.fork()
    if not child:
        signal.pause()
    try:
        slot.leave()  # as a kill would, without unlocking
        assert (await asyncio.wait_for(slots.acquire(), 5)) is not None
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


async def test_the_directory_of_a_run_goes_with_its_last_process():
    with holder("t3", 1):
        reap()
        assert pool_directory("t3").is_dir()
    reap()
    assert not pool_directory("t3").exists()
    slots = SlotQueue(1, SlotFile(pool_directory("t3")))  # and comes again
    (await slots.acquire()).release()
