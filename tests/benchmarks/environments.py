"""Measure the sandbox here: ``python tests/benchmarks/environments.py [--concurrent 1 8 64] [--mode root rootmap]``.

Prints one table, modes by turns: time from asking for an environment to its first ``echo ok`` (ready), teardown, a
shell builtin, a process started by the shell and one by `exec`, and the longest time the event loop was held up.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import statistics
import time

from swe_plugin.environments import AGENT_ENV, EnvironmentSpec
from swe_plugin.environments.sandbox import SandboxEnvironment, close_zygote, probe
from swe_plugin.types import Image

FILES = {f"pkg/module_{i}.py": f"def f{i}():\n    return {i}\n" for i in range(20)}


def spec(number: int, mode: str) -> EnvironmentSpec:
    """A small repository of its own for each of eight tasks."""
    files = {**FILES, "task.txt": str(number % 8)}
    return EnvironmentSpec(Image(files=files), env=AGENT_ENV, label=f"bench-{number}", options={"mode": mode})


async def life(number: int, mode: str, ready: list[float], gone: list[float]) -> None:
    """Start, first command, stop."""
    environment = SandboxEnvironment(spec(number, mode))
    began = time.perf_counter()
    await environment.start()
    try:
        assert (await environment.shell("echo ok")).stdout == "ok\n"
        ready.append(time.perf_counter() - began)
    finally:
        began = time.perf_counter()
        await environment.stop()
        gone.append(time.perf_counter() - began)


async def lag(worst: list[float]) -> None:
    """Keep the longest delay of a 5 ms sleep in worst[0]."""
    while True:
        began = time.perf_counter()
        await asyncio.sleep(0.005)
        worst[0] = max(worst[0], time.perf_counter() - began - 0.005)


async def start_and_stop(concurrent: int, mode: str) -> None:
    """Many lives at once, each followed by another until 3 x concurrent (at least 20) are over."""
    ready: list[float] = []
    gone: list[float] = []
    worst = [0.0]
    watcher = asyncio.ensure_future(lag(worst))
    numbers = iter(range(max(20, 3 * concurrent)))

    async def lane() -> None:
        for number in numbers:
            await life(number, mode, ready, gone)

    began, used = time.perf_counter(), sum(os.times()[:4])
    await asyncio.gather(*(lane() for _ in range(concurrent)))
    took = time.perf_counter() - began
    watcher.cancel()
    cpu_ms = (sum(os.times()[:4]) - used) / len(ready) * 1e3
    print(
        f"{mode:<8}{concurrent:>4} at once: ready {statistics.median(ready) * 1e3:7.1f} ms, "
        f"at most {max(ready) * 1e3:7.1f}, gone {statistics.median(gone) * 1e3:6.1f} ms, "
        f"{len(ready) / took:5.1f} lives/s, owner's CPU {cpu_ms:.1f} ms each, loop held up {worst[0] * 1e3:.0f} ms"
    )


async def commands(mode: str) -> None:
    """Latency of one command."""
    async with SandboxEnvironment(spec(0, mode)) as environment:
        for name, call in {
            "shell builtin (true)": lambda: environment.shell("true"),
            "shell process (/bin/true)": lambda: environment.shell("/bin/true"),
            "exec true": lambda: environment.exec(["true"]),
            "write_file 1 KiB": lambda: environment.write_file("/tmp/x", b"x" * 1024),
            "exec python -I -S -c pass": lambda: environment.exec(["python", "-I", "-S", "-c", "pass"]),
            "exec git diff": lambda: environment.exec(["git", "diff"]),
        }.items():
            times = []
            for _ in range(60):
                began = time.perf_counter()
                await call()
                times.append(time.perf_counter() - began)
            print(f"{mode:<8}{name:<28} {statistics.median(times) * 1e3:7.2f} ms")


async def measure(options: argparse.Namespace) -> None:
    """Everything, after one life that builds the image and starts the zygote."""
    for mode in options.mode:
        await asyncio.gather(*(life(number, mode, [], []) for number in range(8)))
        await commands(mode)
    for concurrent, mode in itertools.product(options.concurrent, options.mode):
        await start_and_stop(concurrent, mode)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--concurrent", type=int, nargs="+", default=[1, 8, 64, 128])
    parser.add_argument("--mode", nargs="+", default=["auto"])
    given = parser.parse_args()
    report = probe()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, mode {report.mode}, limits {report.limits}")
    asyncio.run(measure(given))
    close_zygote()
