"""Steps with and without `swe.overlap=prewarm`: `python tests/benchmarks/bench_overlap.py` (`make bench`).

Real sandboxes, worker, pool and grader on tasks of the demo; every start is made longer by a known time, the
policy answers after a known time, and the trainer sleeps. Set-up per step (`s`) is then known and goes from a quarter
of the training time (`t`) to four times of it. Without overlap a step takes s + generation + t. What can be had with it
is max(s, t) + generation, or less, because environments also start while the policy generates; and, since rollouts also
run commands and are graded, max(s, t) and what a step takes, besides training, whose environments all stand ready.
Prints a table and writes it to docs/benchmarks.md.
"""

import asyncio
import time
from collections.abc import Callable
from statistics import fmean
from typing import Any

from page import machine, write_section

from swe_plugin.config import SweConfig
from swe_plugin.data.demo import demo_tasks
from swe_plugin.environments import EnvironmentSpec
from swe_plugin.environments.sandbox import SandboxEnvironment
from swe_plugin.plugins import load_plugins
from swe_plugin.policies.scripted import ScriptedPolicy
from swe_plugin.rollout.build import build_rollout_worker
from swe_plugin.rollout.worker import RolloutWorker
from swe_plugin.types import Reply, RolloutResult

STEPS, TASKS, ROLLOUTS = 4, 8, 4
TRAIN_S, GENERATE_S = 8.0, 2.0
RATIOS = (0.25, 0.5, 1.0, 2.0, 4.0)


class Thinking(ScriptedPolicy):
    """Hands in after a while."""

    def __init__(self) -> None:
        super().__init__(["```bash\nsubmit\n```"])

    async def respond(self, *words: Any, **options: Any) -> Reply:
        await asyncio.sleep(GENERATE_S)
        return await super().respond(*words, **options)


def slow_start(seconds: float) -> Callable[[EnvironmentSpec], SandboxEnvironment]:
    """A backend of sandboxes that take longer to start; those of gradings do not."""

    class Slow(SandboxEnvironment):
        async def start(self) -> None:
            await super().start()
            await asyncio.sleep(0 if self.spec.label.endswith("-grade") else seconds)

    return Slow


async def step(worker: RolloutWorker, batch: list[Any], number: int, following: list[Any]) -> list[RolloutResult]:
    """One training step as verl takes it: dispatch, look ahead, wait for the rollouts, train."""
    rollouts = [
        asyncio.ensure_future(worker.run(task, session, Thinking, step=number, phase="train"))
        for task in batch
        for session in range(ROLLOUTS)
    ]
    await asyncio.sleep(0)
    worker.prewarm((task, ROLLOUTS) for task in following)
    results = await asyncio.gather(*rollouts)
    await asyncio.sleep(TRAIN_S)
    return results


def a_worker(per_start_s: float) -> tuple[RolloutWorker, list[Any]]:
    """A worker of default capacities, and the tasks of two steps."""
    config = SweConfig()
    config.scaffold.system_prompt = config.scaffold.instance_prompt = "demo"
    tasks = list(demo_tasks(config.demo))[: 2 * TASKS]
    return build_rollout_worker(config, load_plugins(), None, factory=slow_start(per_start_s)), tasks


async def run(setup_s: float, overlap: bool) -> tuple[float, float]:
    """Mean seconds of a step after the first, and the fraction of set-up that was hidden."""
    worker, tasks = a_worker(setup_s * SweConfig().slots.start / (TASKS * ROLLOUTS))
    times, results = [], []
    for number in range(STEPS):
        batch = tasks[number % 2 * TASKS :][:TASKS]
        following = tasks[(number + 1) % 2 * TASKS :][:TASKS] if overlap and number + 1 < STEPS else []
        began = time.perf_counter()
        done = await step(worker, batch, number, following)
        if number > 0:
            times.append(time.perf_counter() - began)
            results += done
    await worker.close()
    assert all(result.reward is not None for result in results), [result.failures for result in results]
    hidden = sum(result.timings.get("hidden", 0.0) for result in results)
    return fmean(times), hidden / (hidden + sum(result.timings["start"] for result in results))


async def run_ready() -> float:
    """Mean seconds of a step, training aside, whose environments were all started before it."""
    worker, tasks = a_worker(0.0)
    times = []
    for number in range(STEPS):
        batch = tasks[number % 2 * TASKS :][:TASKS]
        worker.prewarm((task, ROLLOUTS) for task in batch)
        await asyncio.sleep(TRAIN_S)
        began = time.perf_counter()
        done = await step(worker, batch, number, [])
        times.append(time.perf_counter() - began - TRAIN_S)
        assert all(result.timings.get("hidden") for result in done), "not all were ready"
    await worker.close()
    return fmean(times)


def main() -> None:
    """Measure and write the page."""
    rows, rollouts_s = [], asyncio.run(run_ready())
    for ratio in RATIOS:
        setup_s = ratio * TRAIN_S
        off, _ = asyncio.run(run(setup_s, overlap=False))
        on, hidden = asyncio.run(run(setup_s, overlap=True))
        longer = max(setup_s, TRAIN_S)
        beside = f"{on / (longer + GENERATE_S):.2f} | {on / (longer + rollouts_s):.2f}"
        rows.append(f"| {ratio:g} | {off:.2f} | {on:.2f} | {on / off:.2f} | {beside} | {hidden:.3f} |")
        print(rows[-1], flush=True)
    head = (
        f"`make bench` ({machine()}): {TASKS} x {ROLLOUTS} rollouts, t = {TRAIN_S:g} s, generation {GENERATE_S:g} s, "
        f"rollouts with ready environments {rollouts_s:.2f} s; mean of {STEPS - 1} steps.\n\n"
        "| s / t | off, s | prewarm, s | prewarm / off | prewarm / (max(s, t) + generation) "
        "| prewarm / (max(s, t) + rollouts) | hidden_ratio |\n|---|---|---|---|---|---|---|"
    )
    write_section("overlap", "\n".join([head, *rows]))


if __name__ == "__main__":
    main()
