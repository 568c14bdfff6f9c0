"""One process, one to 1,200 rollouts at once: `python tests/benchmarks/bench_scale.py` (`make bench-scale`).

Real worker, pool, scaffold, token policy and recorder; the model answers at once, the grade is known, environments are
in-memory dummies, then real sandboxes as far as half of the free memory goes. No rollout gets its first answer before
all have an environment, so that they are all there at the same time, and none can end unless all progress. Each size
has a process of its own. Also: taking over what another process started ahead. Writes to docs/benchmarks.md.
"""

import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from page import machine, write_section

from swe_plugin.config import load_config
from swe_plugin.data.demo import demo_tasks
from swe_plugin.environments import AGENT_ENV, EnvironmentPool, EnvironmentSpec, Slots
from swe_plugin.environments.dummy import DummyEnvironment
from swe_plugin.environments.sandbox import SandboxEnvironment
from swe_plugin.grading.base import Grader
from swe_plugin.plugins import load_plugins
from swe_plugin.policies.limits import TokenLimits
from swe_plugin.policies.token_policy import TokenPolicy
from swe_plugin.rollout.build import build_rollout_worker
from swe_plugin.tokens.renderers.bytes import ByteRenderer
from swe_plugin.tokens.server import Completion
from swe_plugin.types import Grade, Task

SIZES = {"dummy": (1, 10, 100, 300, 1000, 1200), "sandbox": (1, 10, 100, 300, 1000)}
TURNS = 10
COMMAND = ByteRenderer().encode("I look around.\n\n```bash\necho hello\n```")
SUBMIT = ByteRenderer().encode("```bash\nsubmit\n```")
BACKENDS = {"dummy": DummyEnvironment, "sandbox": SandboxEnvironment}
ROUNDS = 100


class Known(Grader):
    """Everything is right."""

    def prejudge(self, task: Task, patch: str) -> Grade:
        """The grade, without an environment."""
        return Grade(resolved=True)

    async def grade(self, task: Task, patch: str, environment: object) -> Grade:
        """Never asked."""
        raise NotImplementedError

    def reward(self, task: Task, grade: Grade) -> float:
        """1."""
        return 1.0


class Meeting:
    """A place where all of `n` are before any goes on."""

    def __init__(self, n: int) -> None:
        self._missing, self.complete, self.over = n, asyncio.Event(), asyncio.Event()

    async def join(self) -> None:
        """Be there."""
        self._missing -= 1
        if not self._missing:
            self.complete.set()
        await self.over.wait()


class Server:
    """Answers at once, but the first and the last time nobody before all of `n` have asked."""

    def __init__(self, n: int) -> None:
        self.first, self.last = Meeting(n), Meeting(n)
        self.turns: dict[str, int] = {}

    async def generate(self, request_id: str, prompt_ids: Sequence[int], *, max_tokens: int) -> Completion:
        """A command, and in the last turn the hand-in."""
        turn = self.turns[request_id] = self.turns.get(request_id, 0) + 1
        if turn in (1, TURNS):
            await (self.first if turn == 1 else self.last).join()
        ids = [*(COMMAND if turn < TURNS else SUBMIT), ByteRenderer.END]
        return Completion(ids, [-0.1] * len(ids), 0, 0)


def resident_mib() -> float:
    """Of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def children(pid: int) -> list[int]:
    """All descendants."""
    found, pending = [], [pid]
    while pending:
        for task in Path(f"/proc/{pending.pop()}/task").glob("*/children"):
            below = [int(word) for word in task.read_text().split()]
            found += below
            pending += below
    return found


def environments_mib() -> float:
    """Proportional set size of all that this process started."""
    total = 0
    for pid in children(os.getpid()):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


async def measure(kind: str, n: int, directory: Path) -> dict[str, float]:
    """`n` rollouts at once."""
    most = 2 * n + 8
    slots = {"start": 8, "running": most, "reserved": 0.0}
    given = {"slots": slots, "environment": {"start_timeout_s": 600.0}, "scaffold": {"wall_clock_s": 3600.0}}
    worker = build_rollout_worker(load_config(given), load_plugins(), directory, factory=BACKENDS[kind])
    grader = Known()
    worker.assessor.judge.grader = worker.assessor.rewards.grader = grader
    tasks, renderer = list(demo_tasks(load_config({}).demo)), ByteRenderer()

    async def rollout(server: Server, number: int) -> Any:
        task = replace(tasks[number % len(tasks)], instance_id=f"t{number}")
        limits = TokenLimits(1 << 16)
        return await worker.run(
            task, 0, lambda: TokenPolicy(renderer, server, limits, request_id=task.instance_id), step=1, phase="train"
        )

    async def crowd(size: int) -> dict[str, float]:
        server, before, environments = Server(size), resident_mib(), environments_cpu_s()
        began, cpu = time.perf_counter(), time.process_time()
        running = [asyncio.ensure_future(rollout(server, number)) for number in range(size)]
        await server.first.complete.wait()
        there = time.perf_counter()
        server.first.over.set()
        await server.last.complete.wait()
        worked, worked_cpu = time.perf_counter(), time.process_time()
        found = {"driver_mib": (resident_mib() - before) / size, "environment_mib": environments_mib() / size}
        again_cpu = time.process_time()
        server.last.over.set()
        results = await asyncio.gather(*running)
        end_cpu = time.process_time()
        assert [result.reward for result in results] == [1.0] * size, [r.failures for r in results if r.failures][:1]
        assert set(server.turns.values()) == {TURNS}
        found["starts_per_s"] = size / (there - began)
        found["turns_per_s"] = size * (TURNS - 1) / (worked - there)
        found["cpu_ms"] = 1000 * (worked_cpu - cpu + end_cpu - again_cpu) / size
        found["environment_cpu_ms"] = 1000 * (environments_cpu_s() - environments) / size
        return found

    await crowd(1)  # imports, images, the zygote
    found = await crowd(n)
    await worker.close()
    return found


async def hand_over() -> tuple[float, float]:
    """Milliseconds of a lease that another pool had started, and of one that nobody had."""
    giver, taker = (EnvironmentPool(SandboxEnvironment, Slots(), "bench-scale") for _ in range(2))
    image = next(iter(demo_tasks(load_config({}).demo))).image

    async def nothing(_: object) -> None:
        return

    async def leases(names: Sequence[str]) -> float:
        times = []
        for name in names:
            began = time.perf_counter()
            async with taker.lease(EnvironmentSpec(image, env=AGENT_ENV, label=name)):
                times.append(time.perf_counter() - began)
        return 1000 * median(times)

    await leases(["first"])
    ahead = [f"ahead {i}" for i in range(ROUNDS)]
    giver.prewarm((EnvironmentSpec(image, env=AGENT_ENV, label=name), nothing) for name in ahead)
    while sum(parked.task.done() for parked in giver._parking._all()) < ROUNDS:
        await asyncio.sleep(0.01)
    taken, started = await leases(ahead), await leases([f"now {i}" for i in range(ROUNDS)])
    await giver.close()
    await taker.close()
    return taken, started


def environments_cpu_s() -> float:
    """CPU time of what this process started and of all that has ended below it; what still runs below is left out."""
    ticks = 0
    for task in Path("/proc/self/task").glob("*/children"):
        for pid in task.read_text().split():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def available_mib() -> float:
    """Memory that is free or can be freed."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("MemAvailable"))


def run(kind: str, n: int) -> dict[str, float]:
    """One size in a process of its own."""
    command = [sys.executable, __file__, kind, str(n)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def shared() -> str:
    """What one process does for all nodes."""
    script = Path(__file__).with_name("scale_services.py")
    done = subprocess.run([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    rows = {
        "verl's load balancer, one turn": found["turn_ms"],
        "rollout queue, one tag of a group of 8": found["tag_ms"],
        "rollout queue, one look at 1,000 keys": found["list_ms_per_1000"],
        "trainer, one look at 1,000 keys": found["list_trainer_ms_per_1000"],
    }
    lines = ["| one process for all nodes | CPU, ms |", "|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {value:.2f} |" for name, value in rows.items())])


def slope(sizes: Sequence[tuple[int, dict[str, float]]], what: str) -> float:
    """How much `what` of one rollout changes per further thousand rollouts, between the largest size and 100."""
    rows = dict(sizes)
    largest = max(rows)
    return 1000 * (rows[largest][what] - rows[min(100, largest)][what]) / max(largest - 100, 1)


def main() -> None:
    """Measure all sizes, print, write."""
    head = "| environments | rollouts at once | started per s | turns per s | per rollout: driver CPU, ms |"
    lines = [f"{head} driver, MiB | environment CPU, ms | environment, MiB |", "|---|---|---|---|---|---|---|---|"]
    notes = []
    for kind in BACKENDS:
        rows: list[tuple[int, dict[str, float]]] = []
        for n in SIZES[kind]:
            if rows and n * rows[-1][1]["environment_mib"] > available_mib() / 2:
                notes.append(f"{n} {kind} environments: not tried, {available_mib() / 1024:.0f} GiB free.")
                continue
            rows.append((n, found := run(kind, n)))
            values = [f"{found['starts_per_s']:.0f}", f"{found['turns_per_s']:.0f}", f"{found['cpu_ms']:.1f}"]
            values += [f"{found['driver_mib']:.2f}", f"{found['environment_cpu_ms']:.0f}"]
            values += [f"{found['environment_mib']:.2f}"]
            lines.append(f"| {kind} | {n} | {' | '.join(values)} |")
            print(lines[-1], flush=True)
        change = slope(rows, "cpu_ms")
        notes.append(f"{kind}: each further thousand at once changes the driver's CPU per rollout by {change:+.1f} ms.")
    taken, started = asyncio.run(hand_over())
    notes.append(f"A lease of what another process started ahead: {taken:.1f} ms; of a new sandbox: {started:.1f} ms.")
    what = f"one process, {TURNS} turns each, load average at the end {os.getloadavg()[1]:.0f}"
    text = "\n".join([f"`make bench-scale` ({machine()}): {what}.\n", *lines, "", *notes, "", shared()])
    print(text)
    write_section("scale", text)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        with tempfile.TemporaryDirectory() as scratch:
            print(json.dumps(asyncio.run(measure(sys.argv[1], int(sys.argv[2]), Path(scratch) / "run"))))
    else:
        main()
