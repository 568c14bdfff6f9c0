"""128 cores and 2,000 sandboxes, computed: `python tests/benchmarks/bench_node.py` (`make bench-node`), as root.

Measures here what one sandbox costs each thing that a node has once, or so many of: processors, the thread of the
process that drives it, the zygote's, the kernel's removal of namespaces (taken as one thread), descriptors, terminals,
process ids, memory. Then multiplies, and says what is full first. Writes to docs/scaling.md.
"""

import argparse
import asyncio
import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

from memory import below, pss_kib
from page import PAGE, load, machine, write_section

from swe_plugin.environments import AGENT_ENV, EnvironmentLimits, EnvironmentSpec
from swe_plugin.environments.sandbox import SandboxEnvironment, close_zygote
from swe_plugin.environments.sandbox.owner import current_zygote
from swe_plugin.types import Image

LIVES, AT_ONCE, TURNS = 256, 8, 20
TICKS = os.sysconf("SC_CLK_TCK")
DRIVER_TURN_MS = 1.1
"""CPU of an agent-loop worker per turn, policy, scaffold and records included: `make bench-scale`."""
CORES, ENVIRONMENTS, MEMORY_GB = 128, 2000, 1000
LIFE_S, TURN_S = 410.0, 13.7
"""Of a rollout; see docs/scaling.md."""
COMMAND_CORES = 0.05
"""What a rollout's own commands keep busy, on average; an assumption, which decides how many fit the processors."""


@dataclass
class Costs:
    """Of one sandbox, as measured here."""

    owner_life_ms: float = 0.0
    zygote_life_ms: float = 0.0
    inside_life_ms: float = 0.0
    inside_turn_ms: float = 0.0
    gone_ms: float = 0.0
    memory_mb: float = 0.0
    owner_descriptors: float = 0.0
    zygote_descriptors: float = 0.0
    processes: float = 0.0
    terminals: float = 0.0


def cpu_ms(pid: int, *, ended: bool = False) -> float:
    """CPU so far of a process, or of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return 1000 * sum(map(int, fields[13:15] if ended else fields[11:13])) / TICKS


def number(path: str) -> int:
    """A limit of the kernel."""
    return int(Path(path).read_text())


def descriptors(pid: int) -> int:
    """Open ones."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def terminals(pid: int) -> int:
    """Those that a process has made."""
    return sum(path.readlink().name == "ptmx" for path in Path(f"/proc/{pid}/fd").iterdir())


async def measure() -> Costs:
    """Live `LIVES` of them."""
    turns, cost = asyncio.Semaphore(AT_ONCE), Costs()

    async def start(number: int) -> SandboxEnvironment:
        limits = EnvironmentLimits(start_timeout_s=300)
        files = {"a.py": "pass\n"}
        made = SandboxEnvironment(EnvironmentSpec(Image(files=files), limits, AGENT_ENV, label=f"node-{number}"))
        async with turns:
            await made.start()
        return made

    await (await start(-1)).stop()
    zygote, this = current_zygote()._process.pid, os.getpid()
    owner, forks, inside = cpu_ms(this), cpu_ms(zygote), cpu_ms(zygote, ended=True)
    open_here, open_there = descriptors(this), descriptors(zygote)
    environments = await asyncio.gather(*(start(at) for at in range(LIVES)))
    supervisors = [pid for pid in below(zygote) if terminals(pid)]  # not those that wait for who comes next
    processes = [pid for supervisor in supervisors for pid in (supervisor, *below(supervisor))]
    cost.processes, cost.memory_mb = len(processes) / LIVES, sum(map(pss_kib, processes)) * 1.024e-3 / LIVES
    cost.owner_descriptors = (descriptors(this) - open_here) / LIVES
    cost.zygote_descriptors = (descriptors(zygote) - open_there) / LIVES
    cost.terminals = sum(map(terminals, processes)) / LIVES
    before, owner_turns = sum(map(cpu_ms, processes)), cpu_ms(this)
    for _ in range(TURNS):
        await asyncio.gather(*(environment.shell("true") for environment in environments))
    cost.inside_turn_ms = (sum(map(cpu_ms, processes)) - before) / LIVES / TURNS
    owner_turns = cpu_ms(this) - owner_turns
    began = time.perf_counter()
    await asyncio.gather(*(environment.stop() for environment in environments))
    cost.gone_ms = 1000 * (time.perf_counter() - began) / LIVES
    cost.owner_life_ms = (cpu_ms(this) - owner - owner_turns) / LIVES
    cost.zygote_life_ms = (cpu_ms(zygote) - forks) / LIVES
    cost.inside_life_ms = (cpu_ms(zygote, ended=True) - inside) / LIVES - TURNS * cost.inside_turn_ms
    return cost


def shares(cost: Costs, turn_s: float) -> dict[str, tuple[str, float]]:
    """What -> its use in words, and the part of it that all environments together use."""
    life_s = LIFE_S * turn_s / TURN_S
    lives, per_s = ENVIRONMENTS / life_s, ENVIRONMENTS / turn_s
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    terminals = number("/proc/sys/kernel/pty/max") - number("/proc/sys/kernel/pty/reserve")
    cores = COMMAND_CORES + (cost.inside_life_ms + cost.owner_life_ms + cost.zygote_life_ms) / 1000 / life_s
    cores += (cost.inside_turn_ms + DRIVER_TURN_MS) / 1000 / turn_s
    driver = lives * cost.owner_life_ms / 1000 + per_s * DRIVER_TURN_MS / 1000

    def counted(each: float, limit: float) -> tuple[str, float]:
        return f"{each:.3g} of {limit:,.0f}", ENVIRONMENTS * each / limit

    return {
        "processors": counted(cores, CORES),
        "thread of one agent-loop worker that drives all": (f"{DRIVER_TURN_MS:.1f} ms a turn", driver),
        "thread of the zygote": (f"{cost.zygote_life_ms:.1f} ms a life", lives * cost.zygote_life_ms / 1000),
        "the kernel's removal, as one thread": (f"{cost.gone_ms:.1f} ms a life", lives * cost.gone_ms / 1000),
        "memory, GB": counted(cost.memory_mb / 1000, MEMORY_GB),
        "descriptors of the worker": counted(cost.owner_descriptors, soft),
        "descriptors of the zygote": counted(cost.zygote_descriptors, soft),
        "terminals (`kernel.pty.max` less `pty.reserve`)": counted(cost.terminals, terminals),
        "process ids (`kernel.pid_max`), idle": counted(cost.processes, number("/proc/sys/kernel/pid_max")),
    }


def table(cost: Costs) -> str:
    """For the page."""
    slow, fast = shares(cost, TURN_S), shares(cost, 1.0)
    head = f"| | of one | used by {ENVIRONMENTS:,} | full at | with turns of 1 s | full at |"
    lines = [head, "|---|---|---|---|---|---|"]
    for name, (words, part) in sorted(slow.items(), key=lambda row: -row[1][1]):
        quick = fast[name][1]
        cells = [f"{100 * part:.1f} %", f"{ENVIRONMENTS / part:,.0f}", f"{100 * quick:.1f} %"]
        lines.append(f"| {name} | {words} | {' | '.join(cells)} | {ENVIRONMENTS / quick:,.0f} |")
    serial = {"the zygote": cost.zygote_life_ms, "the worker": cost.owner_life_ms}
    slowest = max(serial, key=lambda name: serial[name])
    at_once = max(serial[slowest], (cost.inside_life_ms + sum(serial.values())) / CORES) * ENVIRONMENTS / 1000
    firsts = [max(found, key=lambda name: found[name][1]) for found in (slow, fast)]
    notes = [
        f"First to be full: {firsts[0]}; with turns of one second: {firsts[1]}.",
        f"All started at once: {at_once:.1f} s, the time of {slowest} ({serial[slowest]:.1f} ms each); "
        f"all stopped at once: {cost.gone_ms * ENVIRONMENTS / 1000:.1f} s, at the rate of this machine.",
    ]
    return "\n".join([*lines, "", *notes])


def main() -> None:
    """Measure, print, write."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    try:
        cost = asyncio.run(measure())
    finally:
        close_zygote()
    text = f"`make bench-node` ({machine()}, {load()}), {LIVES} sandboxes measured here:\n\n{table(cost)}"
    print(cost, text, sep="\n")
    write_section("bench-node", text, PAGE.with_name("scaling.md"))


if __name__ == "__main__":
    main()
