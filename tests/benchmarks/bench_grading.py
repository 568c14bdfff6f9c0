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

import psutil
from page import machine, write_section

from swe_plugin.config import SweConfig
from swe_plugin.grading.judge import Judge
from swe_plugin.plugins import load_plugins
from swe_plugin.rollout.build import build_rollout_worker
from swe_plugin.types import GradingSpec, Image, Task

SECONDS = 5.0
ALONE, CROWD = 8, 40
CORES = len(os.sched_getaffinity(0))
FILES = {f"pkg/part_{n // 20}/module_{n}.py": f"def f{n}(a, b):\n    return a - b\n" * 20 for n in range(200)}
FIX = "--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n"
TEST = """\
import time
began = time.perf_counter()
from calc import add
good = add(1, 2) == 3
while time.perf_counter() - began < {seconds}:
    time.sleep(0.01)
print("PASSED" if good else "FAILED", "add")
print("seconds", time.perf_counter() - began, time.process_time())
"""


def task(seconds: float) -> Task:
    """A bug whose hidden test takes so many seconds, asleep: other work on the machine does not make it longer."""
    return Task(
        "bench",
        "add subtracts",
        image=Image(files={**FILES, "calc.py": "def add(a, b):\n    return a - b\n"}),
        grading=GradingSpec(
            command=("python3", "-S", "hidden.py"),
            tests={"hidden.py": TEST.format(seconds=seconds)},
            fail_to_pass=("add",),
            timeout_s=120,
        ),
    )


async def graded(judge: Judge, wanted: Task) -> tuple[float, float, float]:
    """Seconds of one grading, those of its tests, and the processor's in these."""
    verdict = await judge.judge(wanted, FIX, label="bench")
    assert verdict.grade is not None, verdict.failures
    assert verdict.grade.resolved, verdict.grade.log
    tests, worked = map(float, verdict.grade.log.rpartition("seconds ")[2].split())
    return verdict.duration_s, tests, worked


def processor_s() -> float:
    """Processor seconds of this process, and of its children with all that they have waited for."""
    used = sum(os.times()[:4])
    for child in psutil.Process().children():
        times = child.cpu_times()
        used += times.user + times.system + times.children_user + times.children_system
    return used


async def measure() -> str:
    """The section of the page."""
    config = SweConfig()
    config.grading.cache = False
    config.slots = replace(config.slots, grading=CORES)
    judge = build_rollout_worker(config, load_plugins(), None).judge
    asleep, brief = task(SECONDS), task(0.0)
    await graded(judge, brief)  # builds the image
    load = os.getloadavg()[0]
    alone = [await graded(judge, asleep) for _ in range(ALONE)]
    outside = sorted(1000 * (whole - tests) for whole, tests, _ in alone)
    share = median((whole - tests) / whole for whole, tests, _ in alone)
    used, began = processor_s(), time.perf_counter()
    crowd = await asyncio.gather(*(graded(judge, brief) for _ in range(CROWD)))
    rate = CROWD / (time.perf_counter() - began)
    each = (processor_s() - used - sum(worked for _, _, worked in crowd)) / CROWD
    lines = [
        f"`make bench-grading` ({machine()}), load {load:.1f} when it began:\n",
        "| what | |",
        "|---|---|",
        f"| share of a grading outside a {SECONDS:g}-second test run, median of {ALONE}, one at a time | {share:.1%} |",
        f"| that is, median and slowest | {median(outside):.0f} ms, {outside[-1]:.0f} ms |",
        f"| processor time of a grading outside its tests, {CROWD} gradings, {CORES} at once | {1000 * each:.0f} ms |",
        f"| computed from that: gradings per core and minute of tests that work for {SECONDS:g} s "
        f"| {60 / (SECONDS + each):.1f} of {60 / SECONDS:g} |",
        f"| gradings per second of tests that take no time, {CORES} at once, on the whole machine | {rate:.1f} |",
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
