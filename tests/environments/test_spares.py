"""Children that the zygote makes ahead of any request: the next start gets one, and nobody else notices."""

import asyncio
import os
import signal
import time

import pytest

from swe_plugin.environments.sandbox import SandboxEnvironment, close_zygote
from swe_plugin.environments.sandbox.owner import current_zygote
from swe_plugin.environments.sandbox.probe import MODES
from swe_plugin.environments.sandbox.zygote.server import _SPARES

from .conftest import host_processes, skip_unless, spec

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def fresh_zygote():
    """A zygote that has been asked for nothing yet but trials."""
    close_zygote()
    skip_unless("root")
    yield current_zygote()
    close_zygote()


async def spares(zygote, number=_SPARES):
    """Process ids of all children, which are spares, once there are so many."""
    until = time.monotonic() + 10
    while len(found := set(host_processes(zygote.lease.id)) - {zygote._process.pid}) != number:
        assert time.monotonic() < until, found
        await asyncio.sleep(0.01)
    return found


async def test_a_start_takes_a_spare_which_is_replaced(fresh_zygote):
    assert await spares(fresh_zygote, 0) == set()  # trials ask for none
    async with SandboxEnvironment(spec()) as first:
        assert (await first.shell("echo ok")).stdout == "ok\n"
    before = await spares(fresh_zygote)
    async with SandboxEnvironment(spec()) as second:
        assert (await second.shell("echo ok")).stdout == "ok\n"
        assert before < await spares(fresh_zygote, _SPARES + 1)
    assert len(before & await spares(fresh_zygote)) == _SPARES - 1


@pytest.mark.parametrize("mode", MODES)
async def test_what_a_spare_was_made_with_is_bounded_by_its_plan(mode, fresh_zygote):
    skip_unless(mode)
    for disk_mib in (4, 8):
        async with SandboxEnvironment(spec(mode=mode, disk_mib=disk_mib)) as made:
            sizes = "df --output=size,itotal /tmp / /dev/shm | tail -n +2 | sort -u"
            assert (await made.shell(sizes)).stdout.split() == [str(disk_mib << 10), str(disk_mib * 64)]
        await spares(fresh_zygote)


async def test_a_spare_that_died_is_not_used(fresh_zygote):
    async with SandboxEnvironment(spec()):
        pass
    for pid in await spares(fresh_zygote):
        os.kill(pid, signal.SIGKILL)
    await asyncio.sleep(0.01)  # dead, and perhaps not yet missed
    async with SandboxEnvironment(spec()) as made:
        assert (await made.shell("echo ok")).stdout == "ok\n"


async def test_spares_end_with_the_zygote_and_with_its_owner(fresh_zygote):
    async with SandboxEnvironment(spec()):
        pass
    await spares(fresh_zygote)
    os.kill(fresh_zygote._process.pid, signal.SIGKILL)
    fresh_zygote._process.wait()
    await spares(fresh_zygote, 0)
    async with SandboxEnvironment(spec()):
        pass
    following = current_zygote()
    await spares(following)
    close_zygote()
    assert host_processes(following.lease.id) == []
