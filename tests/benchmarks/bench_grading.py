"""What grading costs beside the tests: `python tests/benchmarks/bench_grading.py` (`make bench-grading`).

A repository of 200 files, its reference patch, hidden tests in a fresh sandbox, no cache, as `swe-plugin eval` and
training grade. The tests say how long they ran themselves; everything else, from asking for the environment to its
end, interpreter and all, counts as outside. Writes its section of docs/benchmarks.md.
"""

import asyncio
import os
import sys
import time
from dataclasses import replace
from statistics import median

from page import machine, write_section

from swe_plugin.config import SweConfig
from swe_plugin.grading.judge import Judge
from swe_plugin.plugins import load_plugins
from swe_plugin.rollout.build import build_rollout_worker
from swe_plugin.types import GradingSpec, Image, Task

SECONDS = 5.0
CORES = len(os.sched_getaffinity(0))
FILES = {f"pkg/part_{n // 20}/module_{n}.py": f"def f{n}(a, b):\n    return a - b\n" * 20 for n in range(200)}
FIX = "--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n"
TEST = """\
import time
began = time.perf_counter()
from calc import add
good = add(1, 2) == 3
while time.{clock}() - ({start}) < {seconds}: {work}
print("PASSED" if good else "FAILED", "add")
print("seconds", time.perf_counter() - began)
"""
SLEEPS = {"clock": "perf_counter", "start": "began", "work": "time.sleep(0.01)"}
WORKS = {"clock": "process_time", "start": "0", "work": "sum(range(1000))"}


def task(seconds: float, how: dict[str, str]) -> Task:
    """A bug whose hidden test takes so many seconds, asleep or at work."""
    return Task(
        "bench",
        "add subtracts",
        image=Image(files={**FILES, "calc.py": "def add(a, b):\n    return a - b\n"}),
        grading=GradingSpec(
            command=("python3", "-S", "hidden.py"),
            tests={"hidden.py": TEST.format(seconds=seconds, **how)},
            fail_to_pass=("add",),
            timeout_s=120,
        ),
    )


async def graded(judge: Judge, wanted: Task) -> tuple[float, float]:
    """Seconds of one grading, and of its tests."""
    verdict = await judge.judge(wanted, FIX, label="bench")
    assert verdict.grade is not None, verdict.failures
    assert verdict.grade.resolved, verdict.grade.log
    return verdict.duration_s, float(verdict.grade.log.rpartition("seconds ")[2])


async def rate(judge: Judge, wanted: Task, count: int) -> float:
    """Gradings per second, as many at once as there are slots."""
    began = time.perf_counter()
    await asyncio.gather(*(graded(judge, wanted) for _ in range(count)))
    return count / (time.perf_counter() - began)


async def measure() -> str:
    """The section of the page."""
    config = SweConfig()
    config.grading.cache = False
    config.slots = replace(config.slots, grading=CORES)
    judge = build_rollout_worker(config, load_plugins(), None).judge
    asleep, busy, brief = task(SECONDS, SLEEPS), task(SECONDS, WORKS), task(0.0, SLEEPS)
    for wanted in (asleep, busy, brief):
        await graded(judge, replace(wanted, grading=replace(wanted.grading, timeout_s=119)))  # builds the image
    load = os.getloadavg()[0]
    alone = [await graded(judge, asleep) for _ in range(8)]
    outside = sorted(1000 * (whole - tests) for whole, tests in alone)
    share = median((whole - tests) / whole for whole, tests in alone)
    worked = await rate(judge, busy, 6 * CORES)
    trivial = await rate(judge, brief, 40 * CORES)
    lines = [
        f"`make bench-grading` ({machine()}), load {load:.1f} when it began, {CORES} gradings at once:\n",
        "| what | |",
        "|---|---|",
        f"| outside the tests, one grading of a {SECONDS:g}-second test run at a time | {share:.1%} |",
        f"| that is, median and slowest of {len(alone)} | {median(outside):.0f} ms, {outside[-1]:.0f} ms |",
        f"| gradings per core and minute, tests that compute for {SECONDS:g} s ({60 / SECONDS:g} at most) |"
        f" {60 * worked / CORES:.1f} |",
        f"| gradings per core and second, tests that take no time | {trivial / CORES:.2f} |",
    ]
    return "\n".join(lines)


def main() -> int:
    """Measure, print, write."""
    text = asyncio.run(measure())
    print(text)
    write_section("bench-grading", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
