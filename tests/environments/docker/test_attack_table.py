"""Every attack of the table in a container: nothing is got, and the environment lives on."""

import pytest
import pytest_asyncio

from environments.attacks import ATTACKS, bait, breaches
from swe_plugin.environments import AGENT_ENV, EnvironmentLimits, EnvironmentSpec
from swe_plugin.environments.docker import DockerEnvironment
from swe_plugin.types import Image

pytestmark = [pytest.mark.docker, pytest.mark.asyncio(loop_scope="module")]
AGENT, ROOT = "1000:1000", "0:0"
CASES = [
    (user, name) for user in (AGENT, ROOT) for name in ATTACKS if (user, name) != (ROOT, "the host's device files")
]
"""Root may break its container's own /dev, which is not the host's."""
LIMITS = EnvironmentLimits(memory_mib=512, disk_mib=64, pids=128)


@pytest.fixture(scope="module")
def there():
    with bait() as there:
        yield there


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def victim(request, dockerd):
    """One container per user; where the storage driver cannot bound the disk, its start says so."""
    options = {"user": request.param}
    spec = EnvironmentSpec(Image(files={"a": "1"}), LIMITS, AGENT_ENV, label="attack", options=options)
    async with DockerEnvironment(spec) as made:
        yield made


@pytest.mark.parametrize(("victim", "name"), CASES, indirect=["victim"])
async def test_an_attack_gets_nothing_and_ends_nothing(victim, there, name):
    got = await breaches(victim, ATTACKS[name], there)
    assert got == "" or "docker" in ATTACKS[name].warned
    assert (await victim.shell("echo well", timeout_s=20)).stdout.endswith("well\n")
