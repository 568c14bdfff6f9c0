"""Containers made ahead: the next start of the same kind gets one, and nothing of them is ever left."""

import asyncio
import dataclasses
import signal
import subprocess
import sys

import pytest

from swe_plugin.environments import AGENT_ENV, EnvironmentLimits, EnvironmentSpec
from swe_plugin.environments.docker import DockerEnvironment, close_daemons
from swe_plugin.environments.docker.daemon import current_daemon
from swe_plugin.environments.docker.reaper import LABEL
from swe_plugin.environments.leases import reap
from swe_plugin.types import Image

from .dockerd import eventually

pytestmark = pytest.mark.docker

OWNER = """
import asyncio, sys
from swe_plugin.environments import AGENT_ENV, EnvironmentSpec
from swe_plugin.environments.docker import DockerEnvironment
from swe_plugin.environments.docker.daemon import current_daemon
from swe_plugin.types import Image

async def main():
    async with DockerEnvironment(EnvironmentSpec(Image(workdir="/tmp"), env=AGENT_ENV, options={"ready": 2})):
        pass
    while not current_daemon(sys.argv[1]).ready:
        await asyncio.sleep(0.01)
    print("ready", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def spec(number=1, **limits):
    image = Image(workdir="/tmp")
    return EnvironmentSpec(image, EnvironmentLimits(**limits), AGENT_ENV, label="ahead", options={"ready": number})


@pytest.fixture
def ready(dockerd):
    """What this process has ready on the daemon, nothing at first."""
    close_daemons()
    yield current_daemon(dockerd.host).ready
    close_daemons()


async def settled(ready, number):
    assert await asyncio.to_thread(eventually, lambda: len(ready) == number), len(ready)


async def test_the_next_start_of_the_same_kind_takes_the_one_that_waits(ready):
    async with DockerEnvironment(spec()) as first:
        await settled(ready, 1)
        waiting = ready._waiting[0].name
        other = dataclasses.replace(spec(), label="other", env={**AGENT_ENV, "X": "1"})  # these come with the plan
        async with DockerEnvironment(other) as second:
            assert second._name == waiting != first._name
            assert (await second.shell("pwd; echo $X")).stdout == "/tmp\n1\n"
            await settled(ready, 1)
        assert ready._waiting[0].name not in (waiting, first._name)


async def test_there_are_never_more_than_asked_for_and_other_limits_are_another_kind(ready):
    async with DockerEnvironment(spec(2)), DockerEnvironment(spec(2)), DockerEnvironment(spec(2)):
        await settled(ready, 2)
    async with DockerEnvironment(spec(2, memory_mib=300)) as other:
        assert (await other.shell("echo ok")).stdout == "ok\n"
        assert await asyncio.to_thread(eventually, lambda: len({one.key for one in ready._waiting}) == 2)
        assert len(ready) == 2


async def test_one_that_died_while_it_waited_is_not_used(ready, client):
    async with DockerEnvironment(spec()):
        await settled(ready, 1)
    client.containers.get(ready._waiting[0].name).kill()
    async with DockerEnvironment(spec()) as made:
        assert (await made.shell("echo ok")).stdout == "ok\n"


async def test_the_one_that_makes_room_is_removed(ready, dockerd):
    async with DockerEnvironment(spec()):
        await settled(ready, 1)
    old = ready._waiting[0].name
    async with DockerEnvironment(spec(memory_mib=300)):
        await settled(ready, 1)
        assert await asyncio.to_thread(eventually, lambda: old not in dockerd.containers())


def test_kill_9_of_their_process_leaves_none(ready, dockerd):
    owner = subprocess.Popen([sys.executable, "-c", OWNER, dockerd.host], stdout=subprocess.PIPE)
    assert owner.stdout.readline() == b"ready\n"
    theirs = set(dockerd.containers())
    assert theirs
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    assert not reap().problems
    assert eventually(lambda: not theirs & set(dockerd.containers()))


async def test_closing_leaves_none(ready, dockerd, client):
    async with DockerEnvironment(spec()):
        await settled(ready, 1)
    assert client.containers.list(all=True, filters={"label": LABEL})
    await asyncio.to_thread(close_daemons)
    assert await asyncio.to_thread(eventually, lambda: not dockerd.containers())
