"""Latencies of the rooms below the trainer: `python tests/benchmarks/bench_rooms.py` (`make bench`).

Environments: start, first command, a further command, stop, one after the other and with as many at once as
`swe.slots.start` allows. Grading: the reference patch of demo tasks in a fresh environment, hidden tests included.
Prints a table and writes it to docs/benchmarks.md.
"""

import asyncio
import sys
import time
from collections import defaultdict
from statistics import median

from page import machine, write_section

from swe_plugin.config import SweConfig
from swe_plugin.data.demo import demo_tasks
from swe_plugin.environments import EnvironmentPool, Slots, build_environment_factory, spec_for
from swe_plugin.plugins import load_plugins
from swe_plugin.types import Task

ROUNDS = 30
Timings = dict[str, list[float]]


async def episode(pool: EnvironmentPool, config: SweConfig, task: Task, timings: Timings) -> None:
    """One environment from start to stop, timed by phase, in milliseconds."""
    async with pool.lease(spec_for(task.image, config.environment, label="bench")) as lease:
        timings["start"].append(1000 * lease.start_s)
        for name in ("first command", "second command"):
            began = time.perf_counter()
            result = await lease.environment.shell("git status --short && ls", timeout_s=30)
            assert result.exit_code == 0, result
            timings[name].append(1000 * (time.perf_counter() - began))
        stopping = time.perf_counter()
    timings["stop"].append(1000 * (time.perf_counter() - stopping))


async def grading(pool: EnvironmentPool, config: SweConfig, task: Task, timings: Timings) -> None:
    """One grading of the reference patch, its environment included, in milliseconds."""
    grader = load_plugins().load("graders", config.grading.grader, "swe.grading.grader")(config.grading)
    began = time.perf_counter()
    async with pool.lease(spec_for(task.image, config.environment, label="bench"), purpose="grading") as lease:
        grade = await grader.grade(task, task.gold_patch, lease.environment)
    assert grade.resolved, grade
    timings["grading, start to stop"].append(1000 * (time.perf_counter() - began))


async def measure() -> tuple[Timings, dict[str, float]]:
    """Timings one by one, and episodes per second with all start slots in use."""
    config = SweConfig()
    factory = build_environment_factory(config.environment, load_plugins())
    slots = Slots(config.slots.start, config.slots.start, config.slots.grading)
    pool = EnvironmentPool(factory, slots)
    tasks = list(demo_tasks(config.demo))
    timings: Timings = defaultdict(list)
    for number in range(ROUNDS):
        await episode(pool, config, tasks[number % len(tasks)], timings)
        await grading(pool, config, tasks[number % len(tasks)], timings)
    began = time.perf_counter()
    crowd = [episode(pool, config, tasks[number % len(tasks)], defaultdict(list)) for number in range(4 * ROUNDS)]
    await asyncio.gather(*crowd)
    per_second = 4 * ROUNDS / (time.perf_counter() - began)
    return timings, {f"episodes per second, {slots.running} at once": per_second}


def render(timings: Timings, rates: dict[str, float]) -> str:
    """The section of the page."""
    lines = [f"`make bench` ({machine()}), {ROUNDS} rounds:\n", "| what | median ms | slowest ms |", "|---|---|---|"]
    lines += [f"| {name} | {median(values):.1f} | {max(values):.1f} |" for name, values in timings.items()]
    lines += ["\n| rate | |", "|---|---|", *(f"| {name} | {value:.1f} |" for name, value in rates.items())]
    return "\n".join(lines)


def main() -> int:
    """Measure, print, write."""
    text = render(*asyncio.run(measure()))
    print(text)
    write_section("bench", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
