"""What one process started ahead is leased by another: once, whoever is killed, and nothing is left."""

import asyncio
import contextlib
import json
import random
import subprocess
import sys
import time
from collections import Counter

import pytest

from swe_plugin.environments import AGENT_ENV, EnvironmentPool, EnvironmentSpec, Slots
from swe_plugin.environments.dummy import DummyEnvironment
from swe_plugin.environments.leases import reap
from swe_plugin.environments.sandbox import SandboxEnvironment
from swe_plugin.environments.slot_file import SlotFile, pool_directory
from swe_plugin.environments.slot_queue import SlotQueue
from swe_plugin.types import Image

from .conftest import host_processes
from .test_leases import cgroups, lease_ids

SCOPE = "handover"
RUNNING = 8

COMMON = """
import asyncio, json, sys, uuid
from swe_plugin.environments import AGENT_ENV, EnvironmentPool, EnvironmentSpec, Slots
from swe_plugin.environments.sandbox import SandboxEnvironment
from swe_plugin.types import Image

pool = EnvironmentPool(SandboxEnvironment, Slots(start=4, running=8), "handover")
def spec(number): return EnvironmentSpec(Image(files={"a.py": "x = 1\\n"}), env=AGENT_ENV, label=f"t@{number}")
def say(**what): print(json.dumps(what), flush=True)
"""

GIVER = """
async def ready(environment):
    await environment.write_file("/tmp/token", uuid.uuid4().hex.encode())

async def main():
    pool.prewarm((spec(number), ready) for number in range(60))
    while sum(parked.task.done() for parked in pool._parking._all()) < 4:
        await asyncio.sleep(0.005)
    say(ready=True)
    await asyncio.Event().wait()
"""

TAKER = """
async def main():
    say(ready=True)
    sys.stdin.readline()
    for number in range(30):
        async with pool.lease(spec(number)) as lease:
            found = await lease.environment.shell("cat /tmp/token 2>/dev/null")
            say(number=number, token=found.stdout)
            await lease.environment.write_file("/tmp/mine", b"x" * 1000)
    await pool.close()
    say(end=True)
"""


@contextlib.contextmanager
def running(body):
    command = [sys.executable, "-c", f"{COMMON}\n{body}\nasyncio.run(main())"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert json.loads(process.stdout.readline()) == {"ready": True}
            yield process
        finally:
            process.kill()


def spec(label="t@0", **options):
    return EnvironmentSpec(Image(files={"a.py": "x = 1\n"}), env=AGENT_ENV, label=label, options=options)


async def nothing(environment):
    """No set-up."""


async def parked(pool, n):
    async with asyncio.timeout(20):
        while sum(one.task.done() for one in pool._parking._all()) < n:
            await asyncio.sleep(0.005)


def assert_nothing_left(seen, scope=SCOPE):
    assert reap().problems == []
    assert lease_ids() == []
    for identity in seen:
        assert host_processes(identity) == []
        assert cgroups(identity) == []
    assert not pool_directory(scope).exists()


async def test_a_lease_is_served_by_another_pool_with_its_state_its_slot_and_its_set_up_time(own_home):
    giver, taker = (EnvironmentPool(SandboxEnvironment, Slots(running=3), "one") for _ in range(2))

    async def ready(environment):
        await environment.shell("cd /tmp; mark=7; sleep 0.2")

    giver.prewarm([(spec(), ready)])
    await parked(giver, 1)
    async with taker.lease(spec()) as lease:
        assert (await lease.environment.shell("echo $mark $PWD")).stdout == "7 /tmp\n"
        assert lease.hidden_s > 0.2
        assert giver.parked == 0
        assert giver._use["running"].free == 2
        await giver.close()  # it goes on without the one who started it
        assert (await lease.environment.exec(["cat", "a.py"])).stdout == "x = 1\n"
        await lease.environment.write_file("b", b"b")
    assert taker._use["running"].free == 3
    await taker.close()


async def test_another_spec_or_a_second_request_gets_its_own(own_home):
    giver, taker = (EnvironmentPool(SandboxEnvironment, Slots(), "two") for _ in range(2))
    giver.prewarm([(spec(), nothing)])
    await parked(giver, 1)
    async with taker.lease(spec(open_files=64)) as other, taker.lease(spec()) as first, taker.lease(spec()) as second:
        assert [lease.hidden_s > 0 for lease in (other, first, second)] == [False, True, False]
    await giver.close()
    await taker.close()


async def test_what_cannot_leave_its_process_stays_for_its_own_leases(own_home):
    giver, taker = (EnvironmentPool(DummyEnvironment, Slots(), "three") for _ in range(2))
    giver.prewarm([(spec(), nothing)])
    await parked(giver, 1)
    async with taker.lease(spec()) as lease:
        assert lease.hidden_s == 0
    assert giver.parked == 1
    await giver.close()


async def test_a_full_house_makes_room_in_another_process(own_home):
    giver, taker = (EnvironmentPool(SandboxEnvironment, Slots(running=2), "four") for _ in range(2))
    giver.prewarm([(spec("a"), nothing), (spec("b"), nothing), (spec("c"), nothing)])
    await parked(giver, 2)
    async with asyncio.timeout(20), taker.lease(spec("x")), taker.lease(spec("y")):
        assert giver.parked == 1  # which waits for a slot
    await giver.close()
    await taker.close()


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["giver", "taker"])
def test_kill_9_at_random_instants_leases_nothing_twice_and_leaves_nothing(own_home, victim):
    seen, tokens, moved_on = set(), Counter(), 0
    for _ in range(4):
        with running(GIVER) as giver, running(TAKER) as one, running(TAKER) as two:
            seen.update(lease_ids())
            for taker in (one, two):
                taker.stdin.write("go\n")
                taker.stdin.flush()
            time.sleep(random.uniform(0, 0.6))
            seen.update(lease_ids())
            killed, survivor = (giver, two) if victim == "giver" else (one, two)
            killed.kill()
            said = [json.loads(line) for line in survivor.stdout]
            assert said[-1] == {"end": True}  # no lease failed
            assert [line["number"] for line in said[:-1]] == list(range(30))
            rest = one.stdout.read().splitlines()  # the other taker's
            lines = [*said, *(json.loads(line) for line in rest if line.endswith("}"))]
            found = [line["token"] for line in lines if line.get("token")]
            tokens.update(found)
            moved_on += len(found)
        assert_nothing_left(seen)
    assert moved_on, "nothing was handed over"
    assert set(tokens.values()) == {1}


@pytest.mark.slow
def test_the_slots_of_killed_processes_are_free(own_home):
    slots = SlotQueue(2 * RUNNING, SlotFile(pool_directory(SCOPE)), 1)
    with running(GIVER) as giver:
        assert slots.free < 2 * RUNNING
        giver.kill()
        giver.wait()
        deadline = time.monotonic() + 10
        while slots.free < 2 * RUNNING and time.monotonic() < deadline:
            time.sleep(0.01)
    assert slots.free == 2 * RUNNING
