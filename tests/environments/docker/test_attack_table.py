"""Every attack of the table in a container: nothing is got, and the environment lives on."""

from pathlib import Path

import pytest
import pytest_asyncio

from environments.attacks import ATTACKS, bait, breaches
from swe_plugin.environments import AGENT_ENV, EnvironmentLimits, EnvironmentSpec
from swe_plugin.environments.docker import DockerEnvironment
from swe_plugin.types import Image

pytestmark = [pytest.mark.docker, pytest.mark.asyncio(loop_scope="module")]
DEVICES = "the host's device files"
"""Root may change those of its container, which has a /dev of its own."""
LIMITS = EnvironmentLimits(memory_mib=512, disk_mib=64, pids=128)


@pytest.fixture(scope="module")
def there():
    with bait() as there:
        yield there


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["1000:1000", "0:0"])
async def victim(request, dockerd):
    """One container per user; where the storage driver cannot bound the disk, its start says so."""
    options = {"user": request.param}
    spec = EnvironmentSpec(Image(files={"a": "1"}), LIMITS, AGENT_ENV, label="attack", options=options)
    async with DockerEnvironment(spec) as made:
        yield made


@pytest.mark.parametrize("name", ATTACKS)
async def test_an_attack_gets_nothing_and_ends_nothing(victim, there, name):
    before = Path("/dev/null").stat().st_mode
    got = await breaches(victim, ATTACKS[name], there)
    allowed = "docker" in ATTACKS[name].warned or (name == DEVICES and victim._settings.user == "0:0")
    assert got == "" or allowed
    assert Path("/dev/null").stat().st_mode == before
    assert (await victim.shell("echo well", timeout_s=20)).stdout.endswith("well\n")
