"""Real sandboxes for half an hour: `python tests/benchmarks/bench_soak.py [MINUTES]` (`make soak MINUTES=30`).

The worker harness without verl: rollouts of demo tasks, eight at once, in sandboxes of their own, graded in others,
recorded, some of them started ahead. From time to time no new ones begin, and when the last has ended memory, file
descriptors and threads of this process and of its zygote, and the number of processes, are looked at. What leaks grows
with the rollouts, so slopes over the last three quarters are per thousand of them. Writes a table to
docs/benchmarks.md; exit code 1 if one is not flat.
"""

import asyncio
import itertools
import shutil
import sys
import tempfile
import time
from dataclasses import astuple, dataclass
from pathlib import Path
from statistics import linear_regression

import psutil
from page import machine, write_section

from swe_plugin.config import SweConfig
from swe_plugin.data.demo import demo_tasks
from swe_plugin.plugins import load_plugins
from swe_plugin.policies.scripted import ScriptedPolicy
from swe_plugin.rollout.build import build_rollout_worker
from swe_plugin.rollout.worker import RolloutWorker

AT_ONCE, EVERY_S, PER_STEP = 8, 10.0, 64
SETTLE_S = 0.5
SCRIPT = ("git status --short; ls", "echo '# seen' >> README; sleep 0.05", "submit")
FLAT = {"memory, MiB": 1.0, "file descriptors": 0.5, "threads": 0.5, "processes": 0.5}
"""What may be added by a thousand rollouts. An allocator that settles is less."""


@dataclass(frozen=True)
class Sample:
    """What this process and its children hold after so many rollouts."""

    rollouts: int
    memory_mib: float
    descriptors: float
    threads: float
    processes: float


def look(rollouts: int) -> Sample:
    """Memory, descriptors and threads of this process and its zygote now; processes also of its sandboxes."""
    this = psutil.Process()
    (zygote,) = [child for child in this.children() if "zygote" in " ".join(child.cmdline())]
    both = (this, zygote)
    return Sample(
        rollouts,
        sum(process.memory_info().rss for process in both) / 2**20,
        sum(process.num_fds() for process in both),
        sum(process.num_threads() for process in both),
        len(this.children(recursive=True)),
    )


async def work(worker: RolloutWorker, run: Path, until: float, done: list[int]) -> list[Sample]:
    """Rollouts, and samples between them; `done` counts those with a reward and those without."""
    tasks = list(demo_tasks(worker.config.demo))
    answers = [f"```bash\n{script}\n```" for script in SCRIPT]
    numbers = itertools.count()
    samples: list[Sample] = []
    turnstile = asyncio.Semaphore(AT_ONCE)

    async def rollout() -> None:
        async with turnstile:
            number = next(numbers)
            task = tasks[number % len(tasks)]
            if number % 4 == 0:
                worker.prewarm([(tasks[(number + AT_ONCE) % len(tasks)], 1)])
            result = await worker.run(task, 0, lambda: ScriptedPolicy(answers), step=number // PER_STEP, phase="train")
            done[result.reward is None] += 1

    async def lane() -> None:
        while time.monotonic() < until:
            await rollout()

    async def watch() -> None:
        while time.monotonic() < until:
            await asyncio.sleep(EVERY_S)
            for _ in range(AT_ONCE):  # all of it: nobody runs any more
                await turnstile.acquire()
            await worker.pool.cool()
            await asyncio.sleep(SETTLE_S)
            samples.append(await asyncio.to_thread(look, done[0]))
            for _ in range(AT_ONCE):
                turnstile.release()
            for old in sorted(run.glob("step_*"), key=lambda path: int(path.name[5:]))[:-2]:
                await asyncio.to_thread(shutil.rmtree, old, ignore_errors=True)

    await asyncio.gather(watch(), *(lane() for _ in range(AT_ONCE)))
    return samples


def main(minutes: float) -> int:
    """Exit code: 1 if something grows."""
    config = SweConfig()
    config.scaffold.system_prompt = config.scaffold.instance_prompt = "demo"
    config.slots.start, config.grading.cache = AT_ONCE, False
    run, done = Path(tempfile.mkdtemp(prefix="swe-soak-")), [0, 0]

    async def soak() -> list[Sample]:
        worker = build_rollout_worker(config, load_plugins(), run)
        try:
            return await work(worker, run, time.monotonic() + 60 * minutes, done)
        finally:
            await worker.close()

    try:
        samples = asyncio.run(soak())
    finally:
        shutil.rmtree(run, ignore_errors=True)
    settled = samples[len(samples) // 4 :]
    lines = [
        f"`make soak MINUTES={minutes:g}` ({machine()}): {done[0]} rollouts, {done[0] / minutes / 60:.1f} a second; "
        f"{done[1]} failed.",
        "",
        "| | at first | at the end | slope per 1000 rollouts | flat below |",
        "|---|---|---|---|---|",
    ]
    flat = done[1] <= done[0] / 20  # on a machine that is too busy some start too late
    counts = [sample.rollouts for sample in settled]
    for place, (name, most) in enumerate(FLAT.items(), start=1):
        values = [astuple(sample)[place] for sample in settled]
        slope = 1000 * linear_regression(counts, values).slope
        flat = flat and slope < most
        lines.append(f"| {name} | {values[0]:.1f} | {values[-1]:.1f} | {slope:+.2f} | {most:g} |")
    print("\n".join(lines))
    write_section("soak", "\n".join(lines))
    return int(not flat)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 30.0))
