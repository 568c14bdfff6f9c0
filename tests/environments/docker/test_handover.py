"""A container that one process started is used by another one."""

import asyncio

import pytest

from swe_plugin.environments import AGENT_ENV, EnvironmentPool, EnvironmentSpec, Slots
from swe_plugin.environments.docker import DockerEnvironment
from swe_plugin.environments.docker import daemon as daemons
from swe_plugin.types import Image

from .conftest import eventually

pytestmark = pytest.mark.docker

SPEC = EnvironmentSpec(Image(workdir="/tmp"), env=AGENT_ENV, label="moved")


async def nothing(environment):
    """No set-up."""


async def test_a_container_moves_and_goes_on_without_the_one_who_started_it(dockerd, swe_home):
    giver, taker = (EnvironmentPool(DockerEnvironment, Slots(running=2), "moving") for _ in range(2))
    giver.prewarm([(SPEC, nothing)])
    async with asyncio.timeout(60):
        while not giver._parking._all()[0].task.done():
            await asyncio.sleep(0.02)
    async with taker.lease(SPEC) as lease:
        assert lease.hidden_s > lease.start_s
        await lease.environment.shell("cd /; mark=7")
        await giver.close()
        assert (await lease.environment.shell("echo $mark $PWD")).stdout == "7 /\n"
        assert len(dockerd.containers()) == 1
    assert eventually(lambda: not dockerd.containers())
    await taker.close()
    daemons.close_daemons()
