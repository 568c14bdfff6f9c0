"""Every attack of the table, in every mode of the sandbox: nothing is got, and the environment lives on."""

from pathlib import Path

import pytest
import pytest_asyncio

from swe_plugin.environments import AGENT_ENV, EnvironmentLimits, EnvironmentSpec
from swe_plugin.environments.sandbox import SandboxEnvironment
from swe_plugin.types import Image

from .attacks import ATTACKS, Attack, bait, breaches
from .conftest import FILES, MODES, skip_unless

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
LIMITS = EnvironmentLimits(memory_mib=512, disk_mib=64, pids=128)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]


@pytest.fixture(scope="module")
def there():
    with bait() as there:
        yield there


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=MODES)
async def victim(request):
    skip_unless(request.param)
    spec = EnvironmentSpec(Image(files=FILES), LIMITS, AGENT_ENV, label="attack", options={"mode": request.param})
    async with SandboxEnvironment(spec) as environment:
        yield environment


@pytest.mark.parametrize("name", ATTACKS)
async def test_an_attack_gets_nothing_and_ends_nothing(victim, there, name):
    assert await breaches(victim, ATTACKS[name], there) == ""
    assert (await victim.shell("echo well", timeout_s=20)).stdout.endswith("well\n")


async def test_an_attack_would_be_seen(victim, there):
    """The table can fail: what is there for the taking is reported."""
    assert await breaches(victim, Attack("", shell="echo BREACH it"), there) == "BREACH it"
    assert await breaches(victim, Attack("", code="breach(42)"), there) == "BREACH 42"
    assert "secret" in await breaches(victim, Attack("", shell=f"echo {there.word}"), there)


def test_the_page_has_every_attack_and_every_mode():
    lines = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    head, _, *rows = lines
    assert head == ["attack", "what for", *(f"sandbox, {mode}" for mode in MODES), "docker"]
    assert [row[0] for row in rows] == list(ATTACKS)
    assert len(rows) >= 30
    warned = {name: attack.warned for name, attack in ATTACKS.items() if attack.warned}
    for name, _, *verdicts in rows:
        known = {f"warned: {reason}" for reason in warned.get(name, {}).values()}
        assert set(verdicts) <= {"held", *known}, name
