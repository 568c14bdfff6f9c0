"""A thousand sandboxes alive at once: `python tests/benchmarks/bench_crowd.py [--sandboxes 1000]` (`make bench-crowd`).

All are there before any is asked; each answers two commands with its own number, then all are stopped at once. What an
idle one holds: the proportional set size of all its processes, what the machine has less of, and disk. As root.
"""

import argparse
import asyncio
import logging
import os
import subprocess
import tempfile
import time
from pathlib import Path

from memory import below, pss_kib
from page import load, machine, write_section

from swe_plugin.environments import AGENT_ENV, EnvironmentLimits, EnvironmentSpec
from swe_plugin.environments.home import home
from swe_plugin.environments.sandbox import SandboxEnvironment, close_zygote
from swe_plugin.environments.sandbox.owner import current_zygote
from swe_plugin.environments.sandbox.zygote.server import _SPARES
from swe_plugin.types import Image

FILES = {f"pkg/module_{number}.py": f"def f():\n    return {number}\n" for number in range(20)}
STARTING = 8


class Errors(logging.Handler):
    """Keeps what is logged as an error, such as a sandbox that is not gone in time."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        self.seen.append(record.getMessage())


def disk_kib() -> int:
    """What the directory of this node takes."""
    return int(subprocess.run(["du", "-sk", home()], capture_output=True, text=True, check=True).stdout.split()[0])


def available_kib() -> int:
    """Memory that is free or can be freed."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))


async def start(number: int, turns: asyncio.Semaphore) -> SandboxEnvironment:
    """One that has not been asked for anything yet."""
    limits = EnvironmentLimits(start_timeout_s=300)
    spec = EnvironmentSpec(Image(files=FILES), limits, AGENT_ENV, label=f"crowd-{number}")
    environment = SandboxEnvironment(spec)
    async with turns:
        await environment.start()
    return environment


async def answers(environments: list[SandboxEnvironment]) -> float:
    """Seconds until each has answered with its own number, and with what it was told before."""
    began = time.perf_counter()

    async def ask(number: int, environment: SandboxEnvironment) -> None:
        assert (await environment.shell(f"n={number}; echo $n")).stdout == f"{number}\n"
        assert (await environment.shell("echo $n; exit 7")).exit_code == 7

    await asyncio.gather(*(ask(number, environment) for number, environment in enumerate(environments)))
    return time.perf_counter() - began


async def measure(count: int) -> dict[str, str]:
    """Rows of the table."""
    turns = asyncio.Semaphore(STARTING)
    await (await start(-1, turns)).stop()  # the image, the zygote
    zygote = current_zygote()._process.pid
    disk, available, began = disk_kib(), available_kib(), time.perf_counter()
    environments = await asyncio.gather(*(start(number, turns) for number in range(count)))
    took = time.perf_counter() - began
    processes = below(zygote)
    pss, memory, more_disk = sum(map(pss_kib, processes)), available - available_kib(), disk_kib() - disk
    written = await environments[0].exec(["df", "-k", "--output=used", "/tmp"])
    answered = await answers(environments)
    began = time.perf_counter()
    await asyncio.gather(*(environment.stop() for environment in environments))
    gone = time.perf_counter() - began
    left = below(zygote)
    groups = [path for group in current_zygote().cgroups(0).values() for path in Path(group).parent.glob("[0-9]*")]
    assert len(left) <= _SPARES, left
    assert not groups, groups
    return {
        "alive at once, mode": f"{count}, {environments[0]._mode}",
        f"started, {STARTING} at a time": f"{took:.1f} s, {count / took:.0f} a second",
        "two commands in each, all at once, every answer right": f"{answered:.1f} s",
        "all stopped at once, nothing left": f"{gone:.1f} s",
        f"PSS of an idle one, its {len(processes) // count} processes": f"{pss * 1.024e-3 / count:.2f} MB",
        "the machine's memory for one, kernel included": f"{memory * 1.024e-3 / count:.2f} MB",
        "disk of an idle one": f"{more_disk / count:.2f} KiB",
        "its tmpfs, when idle": f"{written.stdout.split()[1]} KiB",
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sandboxes", type=int, default=1000)
    given = parser.parse_args()
    errors = Errors()
    logging.getLogger().addHandler(errors)
    with tempfile.TemporaryDirectory(prefix="swe-crowd-") as directory:
        os.environ["SWE_PLUGIN_HOME"] = directory
        try:
            rows = asyncio.run(measure(given.sandboxes))
        finally:
            close_zygote()
    assert not errors.seen, errors.seen[:3]
    lines = [f"`make bench-crowd` ({machine()}, {load()}):", "", "| what | |", "|---|---|"]
    text = "\n".join([*lines, *(f"| {name} | {value} |" for name, value in rows.items())])
    print(text)
    write_section("bench-crowd", text)


if __name__ == "__main__":
    main()
