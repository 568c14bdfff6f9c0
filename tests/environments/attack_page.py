"""Runs every attack in every mode here and writes the table of docs/security.md: `make docs-security`.

Needs root and a Docker daemon (`DOCKER_HOST`).
"""

import asyncio
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:1] = [str(ROOT / "tests"), str(ROOT / "tests/benchmarks")]

from page import machine, write_section  # noqa: E402

from environments.attacks import ATTACKS, Bait, bait, breaches  # noqa: E402
from swe_plugin.environments import AGENT_ENV, EnvironmentLimits, EnvironmentSpec  # noqa: E402
from swe_plugin.environments.base import Environment  # noqa: E402
from swe_plugin.environments.docker import DockerEnvironment, close_daemons  # noqa: E402
from swe_plugin.environments.sandbox import SandboxEnvironment  # noqa: E402
from swe_plugin.environments.sandbox.probe import MODES  # noqa: E402
from swe_plugin.types import Image  # noqa: E402

LIMITS = EnvironmentLimits(memory_mib=512, disk_mib=64, pids=128)


def environments() -> dict[str, Environment]:
    """Column of the table -> an environment that can be started here."""

    def spec(**options: object) -> EnvironmentSpec:
        return EnvironmentSpec(Image(files={"a": "1"}), LIMITS, AGENT_ENV, label="attack", options=options)

    found: dict[str, Environment] = {f"sandbox, {mode}": SandboxEnvironment(spec(mode=mode)) for mode in MODES}
    return {**found, "docker": DockerEnvironment(spec())}


async def column(backend: str, environment: Environment, there: Bait) -> list[str]:
    """One verdict per attack."""
    verdicts = []
    async with environment:
        for name, attack in ATTACKS.items():
            got = await breaches(environment, attack, there)
            alive = (await environment.shell("echo well", timeout_s=20)).stdout.endswith("well\n")
            reason = attack.warned.get(backend, "")
            open_ = f"warned: {reason}" if reason and alive else f"OPEN: {got or 'the environment is gone'}"
            verdicts.append("held" if not got and alive else open_)
            print(f"{name}: {verdicts[-1]}", flush=True)
    return verdicts


def main() -> int:
    """Exit code: 1 if something is open."""
    with bait() as there:
        columns = {name: asyncio.run(column(name.split(",")[0], made, there)) for name, made in environments().items()}
    close_daemons()
    head = ["attack", "what for", *columns]
    rows = [
        [name, attack.goal, *(verdicts[number] for verdicts in columns.values())]
        for number, (name, attack) in enumerate(ATTACKS.items())
    ]
    table = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    lines = [f"{len(ATTACKS)} attacks, {machine()}.", "", *table]
    write_section("attacks", "\n".join(lines), ROOT / "docs" / "security.md")
    return int(any("OPEN" in verdict for verdicts in columns.values() for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())
