"""Commands, outputs and trees: `python tests/benchmarks/bench_commands.py` (`make bench-commands`), as root.

In a sandbox and, where dockerd is installed, in a container: latency in the persistent shell, beside the floor; 64
environments with 100 commands each while two more processes per core compute; 200 MB of output kept, 1 GB cut; a tree
of 100,000 files in and out, beside making such a tree here. *Peak* is what this process, and the environment's
supervisor, hold beyond before.
"""

import argparse
import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from memory import Peak, below
from page import load, machine, write_section

from swe_plugin.environments import AGENT_ENV, EnvironmentLimits, EnvironmentSpec
from swe_plugin.environments.base import Environment
from swe_plugin.types import Image

sys.path.insert(0, str(Path(__file__).parents[1]))
from environments.docker.dockerd import running_dockerd

ENVIRONMENTS, COMMANDS, STARTING = 64, 100, 8
ROUNDS = 300
KEPT, CUT = 200_000_000, 1_000_000_000
LIMITS = EnvironmentLimits(memory_mib=4096, disk_mib=2048, start_timeout_s=300)
ROOMY = EnvironmentLimits(memory_mib=4096, disk_mib=2048, start_timeout_s=300, output_bytes=256 << 20)


class Backend:
    """How to make environments of one kind, and which process serves one."""

    def __init__(self, name: str, kind: Callable[[EnvironmentSpec], Any]) -> None:
        self.name, self._kind = name, kind

    def make(self, limits: EnvironmentLimits = LIMITS) -> Environment:
        """Not started."""
        image = Image(files={"a.py": "pass\n"})
        made: Environment = self._kind(EnvironmentSpec(image, limits, AGENT_ENV, label="bench-commands"))
        return made

    def supervisor(self, environment: Any) -> int:
        """Process id of the supervisor, when this is the only environment."""
        if self.name == "docker":
            return int(environment._daemon.api.inspect_container(environment._name)["State"]["Pid"])
        zygote = next(pid for pid in below(os.getpid()) if "zygote" in Path(f"/proc/{pid}/cmdline").read_text())
        return below(zygote)[0]


async def latencies(backend: Backend) -> dict[str, float]:
    """Median milliseconds."""
    found = {}
    async with backend.make() as environment:
        calls = {
            "a builtin in the persistent shell": lambda: environment.shell("true"),
            "a process in it": lambda: environment.shell("/bin/true"),
            "`exec` of a process": lambda: environment.exec(["true"]),
        }
        for name, call in calls.items():
            times = []
            for _ in range(ROUNDS):
                began = time.perf_counter()
                await call()
                times.append(time.perf_counter() - began)
            found[name] = 1000 * median(times)
    return found


def floor() -> float:
    """Median milliseconds of a byte to another process and back: how fast this machine wakes whoever waits."""
    ours, theirs = socket.socketpair()
    echo = "import socket, sys; s = socket.socket(fileno=int(sys.argv[1]))\nwhile b := s.recv(1): s.send(b)"
    with subprocess.Popen([sys.executable, "-c", echo, str(theirs.fileno())], pass_fds=[theirs.fileno()]), ours:
        theirs.close()
        times = []
        for _ in range(10 * ROUNDS):
            began = time.perf_counter()
            ours.send(b"x")
            ours.recv(1)
            times.append(time.perf_counter() - began)
    return 1000 * median(times)


async def under_load(backend: Backend) -> str:
    """All environments at once, every output and exit code looked at, with processors that have other work."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    turns, environments = asyncio.Semaphore(STARTING), [backend.make() for _ in range(ENVIRONMENTS)]

    async def work(environment: Environment, number: int) -> int:
        async with turns:
            await environment.start()
        together.release()
        await everyone.wait()
        wrong = 0
        for at in range(COMMANDS):
            text, code = f"{number} {at} " + "x" * (at * 37), (number + at) % 200
            script = f"printf '%s' '{text}'; printf %s {at} >&2; "
            if at % 2:
                result = await environment.shell(f"{script} (exit {code})")
            else:
                result = await environment.exec(["sh", "-c", f"{script} exit {code}"])
            wrong += (result.stdout + result.stderr, result.exit_code) != (f"{text}{at}", code)
        return wrong

    everyone, together = asyncio.Event(), asyncio.Semaphore(0)
    try:
        working = [asyncio.ensure_future(work(environment, number)) for number, environment in enumerate(environments)]
        for _ in working:
            await together.acquire()
        began = time.perf_counter()
        everyone.set()
        wrong = sum(await asyncio.gather(*working))
        took = time.perf_counter() - began
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
        await asyncio.gather(*(environment.stop() for environment in environments))
    assert not wrong, wrong
    count = ENVIRONMENTS * COMMANDS
    return f"{count} of {count} right, {count / took:.0f} a second"


async def outputs(backend: Backend) -> dict[str, str]:
    """One that is kept whole and one that is cut."""
    found = {}
    for name, size, limits in (("200 MB of output", KEPT, ROOMY), ("1 GB of output, cut", CUT, LIMITS)):
        async with backend.make(limits) as environment:
            await environment.shell("true")
            peak, began = Peak([os.getpid(), backend.supervisor(environment)]), time.perf_counter()
            result = await environment.shell(f"head -c {size} /dev/zero | tr '\\0' a; echo end", timeout_s=300)
            took, peaks = time.perf_counter() - began, peak.mib()
        assert result.stdout.endswith("aend\n")
        assert result.truncated == (size == CUT)
        assert size == CUT or result.stdout == "a" * size + "end\n"
        found[name] = (
            f"{took:.1f} s, {size / took / 1e6:.0f} MB/s; peak {peaks[0]:.0f} MiB here, {peaks[1]:.0f} MiB there"
        )
    return found


def make_tree(top: Path, files: int) -> float:
    """Seconds to make so many files here."""
    began = time.perf_counter()
    for number in range(files):
        if number % 1000 == 0:
            (top / f"{number // 1000}").mkdir(parents=True)
        (top / f"{number // 1000}/{number}").write_bytes(b"%d" % number)
    return time.perf_counter() - began


async def trees(backend: Backend, source: Path, files: int) -> dict[str, str]:
    """Many files in and out."""
    async with backend.make() as environment:
        processes = [os.getpid(), backend.supervisor(environment)]
        peak, began = Peak(processes), time.perf_counter()
        await environment.upload(source, "/tmp/tree")
        into, into_peaks = time.perf_counter() - began, peak.mib()
        counted = await environment.shell("find /tmp/tree -type f | wc -l", timeout_s=120)
        assert counted.stdout.strip() == str(files)
        target = source.with_name(f"out-{backend.name}")
        peak, began = Peak(processes), time.perf_counter()
        await environment.download("/tmp/tree", target)
        out, out_peaks = time.perf_counter() - began, peak.mib()
    assert all(path.read_text() == path.name for path in target.glob("*/*"))
    assert sum(1 for _ in target.glob("*/*")) == files
    shutil.rmtree(target)
    cell = "{:.1f} s; peak {:.0f} MiB here, {:.0f} MiB there"
    return {
        f"a tree of {files:,} files in": cell.format(into, *into_peaks),
        f"a tree of {files:,} files out": cell.format(out, *out_peaks),
    }


async def measure(backend: Backend, source: Path, files: int) -> dict[str, str]:
    """Rows of the table."""
    async with backend.make():  # the image, the zygote
        pass
    found = {"floor: a byte to another process here, and back": await asyncio.to_thread(floor)}
    rows = {name: f"{value:.2f} ms" for name, value in (found | await latencies(backend)).items()}
    rows[f"{ENVIRONMENTS} environments x {COMMANDS} commands under load"] = await under_load(backend)
    return rows | await outputs(backend) | await trees(backend, source, files)


def backends(stack: ExitStack, top: Path) -> list[Backend]:
    """Those that can run here; a daemon of our own goes when `stack` is closed."""
    from swe_plugin.environments.sandbox import SandboxEnvironment, close_zygote

    stack.callback(close_zygote)
    found = [Backend("sandbox", SandboxEnvironment)]
    if shutil.which("dockerd"):
        from swe_plugin.environments.docker import DockerEnvironment, close_daemons

        (top / "dockerd").mkdir()
        os.environ["DOCKER_HOST"] = stack.enter_context(running_dockerd(top / "dockerd")).host
        stack.callback(close_daemons)
        found.append(Backend("docker", DockerEnvironment))
    return found


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    given = parser.parse_args()
    with ExitStack() as stack:
        top = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="swe-commands-")))
        os.environ["SWE_PLUGIN_HOME"] = str(top / "home")
        made = make_tree(top / "in", given.files)
        names = backends(stack, top)
        columns = [asyncio.run(measure(backend, top / "in", given.files)) for backend in names]
    lines = [
        f"`make bench-commands` ({machine()}, {load()}); making such a tree here took {made:.1f} s.",
        "",
        f"| | {' | '.join(backend.name for backend in names)} |",
        "|---" * (len(names) + 1) + "|",
        *(f"| {name} | {' | '.join(column[name] for column in columns)} |" for name in columns[0]),
    ]
    print("\n".join(lines))
    write_section("bench-commands", "\n".join(lines))


if __name__ == "__main__":
    main()
