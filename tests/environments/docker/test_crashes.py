"""Whoever dies, nothing is left, and what failed is never taken for a command's failure."""

import asyncio
import contextlib
import dataclasses
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from swe_plugin.environments import AGENT_ENV, EnvironmentPool, EnvironmentSpec, Slots
from swe_plugin.environments.docker import DockerEnvironment, close_daemons
from swe_plugin.environments.leases import reap
from swe_plugin.errors import EnvironmentStartError, EnvironmentUnavailable
from swe_plugin.types import Image

from ..kills import DockerPlace, play
from .dockerd import eventually

pytestmark = pytest.mark.docker

OWNER = """
import asyncio
from swe_plugin.environments import AGENT_ENV, EnvironmentPool, EnvironmentSpec, Slots
from swe_plugin.environments.docker import DockerEnvironment
from swe_plugin.types import Image

async def rollout(number):
    while True:
        image = Image(files={"a.py": f"# {number}\\n"})
        async with DockerEnvironment(EnvironmentSpec(image, env=AGENT_ENV)) as environment:
            await environment.shell("sleep 300 & sleep 0.2")
            await environment.write_file("/tmp/x", b"x" * 100000)

async def main():
    print("ready", flush=True)
    await asyncio.gather(*(rollout(number) for number in range(2)))

asyncio.run(main())
"""


def spec(**options):
    return EnvironmentSpec(Image(workdir="/tmp"), env=AGENT_ENV, label="crash", options=options)


def test_kill_9_of_the_owner_at_random_instants_leaves_nothing(dockerd, own_home, tmp_path_factory):
    outcome = play(
        DockerPlace("docker", tmp_path_factory.mktemp("scratch"), dockerd), 8, seed=random.randrange(1 << 32)
    )
    assert outcome.held, "no owner had anything"
    assert outcome.left == []


def test_a_container_ends_with_its_owner_even_if_nobody_reaps(dockerd):
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE)
    assert eventually(dockerd.containers, 60)
    time.sleep(1.5)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    running = ["docker", "-H", dockerd.host, "ps", "-q"]
    assert eventually(lambda: not subprocess.run(running, capture_output=True, check=True).stdout)
    assert not reap().problems


async def test_a_daemon_that_dies_in_mid_command_makes_the_environment_unavailable_and_comes_back(dockerd):
    environment = DockerEnvironment(spec())
    await environment.start()
    commands = [asyncio.ensure_future(environment.shell("sleep 60"))]
    commands.append(asyncio.ensure_future(environment.exec(["sleep", "60"])))
    await asyncio.sleep(0.3)
    await asyncio.to_thread(dockerd.crash)
    try:
        for command in commands:
            with pytest.raises(EnvironmentUnavailable):
                await asyncio.wait_for(command, 20)
        assert not await environment.is_alive()
        await environment.stop()
        with pytest.raises(
            EnvironmentStartError, match=r"daemon at unix:.* does not answer .*; start it, or set DOCKER_HOST"
        ):
            await DockerEnvironment(spec()).start()
    finally:
        await asyncio.to_thread(dockerd.start)
    async with DockerEnvironment(spec()) as following:
        assert (await following.shell("echo back")).stdout == "back\n"
    assert await asyncio.to_thread(eventually, lambda: not dockerd.containers())


async def test_the_pool_outlives_its_daemon(dockerd):
    """What was running and what was parked is lost, no slot is, and the next lease starts as soon as it can."""
    pool = EnvironmentPool(DockerEnvironment, Slots(start=2, running=3))
    parked = [dataclasses.replace(spec(), label=f"parked-{number}") for number in range(2)]
    ready = asyncio.Semaphore(0)

    async def note(environment):
        ready.release()

    pool.prewarm((one, note) for one in parked)
    for _ in parked:
        await ready.acquire()
    async with pool.lease(spec()) as lease:
        command = asyncio.ensure_future(lease.environment.shell("sleep 60"))
        await asyncio.sleep(0.3)
        await asyncio.to_thread(dockerd.crash)
        with pytest.raises(EnvironmentUnavailable):
            await asyncio.wait_for(command, 20)
    try:
        with pytest.raises(EnvironmentStartError, match="does not answer"):
            async with pool.lease(parked[0]):
                pass
    finally:
        await asyncio.to_thread(dockerd.start)
    async with contextlib.AsyncExitStack() as stack:
        for wanted in (parked[1], spec(), spec()):
            lease = await stack.enter_async_context(pool.lease(wanted))
            assert (await lease.environment.shell("echo back")).stdout == "back\n"
        assert (pool.in_use, pool.parked) == (3, 0)
    await pool.close()
    assert pool.in_use == 0
    assert await asyncio.to_thread(eventually, lambda: not dockerd.containers())


async def test_no_daemon_at_all_is_a_failed_start_that_says_what_to_do(tmp_path):
    with pytest.raises(EnvironmentStartError, match=r"does not answer .*; start it, or set DOCKER_HOST"):
        await DockerEnvironment(spec(host=f"unix://{tmp_path}/none.sock")).start()


async def test_a_lease_on_a_dead_daemon_is_kept_until_it_is_back(dockerd):
    environment = DockerEnvironment(spec())
    await environment.start()
    await asyncio.to_thread(dockerd.crash)
    try:
        await environment.stop()
        await asyncio.to_thread(close_daemons)
        assert "containers of swe-" in str(await asyncio.to_thread(reap))
    finally:
        await asyncio.to_thread(dockerd.start)
    assert not (await asyncio.to_thread(reap)).problems
    assert await asyncio.to_thread(eventually, lambda: not dockerd.containers())


async def test_a_forked_child_neither_uses_nor_removes_its_parent_s_containers(dockerd):
    async with DockerEnvironment(spec()) as environment:
        if (child := os.fork()) == 0:
            with contextlib.suppress(BaseException):
                close_daemons()
            os._exit(0)
        os.waitpid(child, 0)
        assert (await environment.shell("echo here")).stdout == "here\n"


async def test_a_pruned_supervisor_is_brought_back(dockerd):
    async with DockerEnvironment(spec()):
        pass
    prune = ["docker", "-H", dockerd.host, "container", "prune", "--force"]
    assert b"Deleted" in (await asyncio.to_thread(subprocess.run, prune, capture_output=True, check=True)).stdout
    async with DockerEnvironment(spec()) as environment:
        assert (await environment.shell("echo back")).stdout == "back\n"
