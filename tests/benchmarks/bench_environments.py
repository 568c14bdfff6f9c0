"""Environments side by side: `python tests/benchmarks/bench_environments.py` (`make bench-environments`), as root.

One root directory of a few hundred MB (this machine's Python and git, numpy, sympy, a repository); each contender
starts workspaces from it, 1, 8 and 64 at once. *Ready* is the time from asking to the answer of a first command, *gone*
that of removing everything. Needs root, a C compiler, bubblewrap, a Docker daemon and `agentbox-rl`; what is missing is
left out and named. Prints a table and writes it to docs/benchmarks.md.
"""

import argparse
import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from contenders import DOCKER_TAG, WORKDIR, AgentBox, Bubblewrap, Chroot, Contender, Docker, Floor, Ours
from page import machine, write_section

from swe_plugin.environments.images import resolve
from swe_plugin.environments.sandbox import SandboxEnvironment, close_zygote
from swe_plugin.types import Image

SLOW = 16
"""Contenders that took longer than `SLOW_S` alone are tried with at most this many at once."""
SLOW_S = 2.0
Times = tuple[list[float], list[float]]


def make_root(root: Path) -> None:
    """The machine's own base image, numpy and sympy, and a repository."""
    for layer in reversed(resolve(Image(), owner=(1000, 1000)).directories):
        subprocess.run(["cp", "-a", f"{layer}/.", str(root)], check=True)
    target = root / "usr/lib/python3/dist-packages"
    target.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", str(target)]
    subprocess.run([*pip, "numpy", "sympy"], check=True, capture_output=True)
    for name in ("proc", "dev", "sys", "tmp", "home/agent", WORKDIR.lstrip("/")):
        (root / name).mkdir(parents=True, exist_ok=True)
    work = root / WORKDIR.lstrip("/")
    for number in range(200):
        (work / f"module_{number}.py").write_text(f"def f():\n    return {number}\n")
    git = ["git", "-C", str(work), "-c", "user.name=b", "-c", "user.email=b@b"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "base"]):
        subprocess.run([*git, *words], check=True)
    subprocess.run(["chown", "-R", "1000:1000", str(work)], check=True)


def contenders(root: Path) -> list[Contender]:
    """Who takes part."""
    found: list[Contender] = [Ours("sandbox, full protection", SandboxEnvironment, f"rootfs:{root}")]
    found.append(Ours("the same, root inside", SandboxEnvironment, f"rootfs:{root}", mode="rootmap"))
    try:
        from swe_plugin.environments.docker import DockerEnvironment
    except ImportError:
        pass
    else:
        found.append(Docker("docker", DockerEnvironment, f"docker:{DOCKER_TAG}", user="1000:1000"))
    return [*found, AgentBox(), Bubblewrap(), Chroot()]


async def lives(contender: Contender, at_once: int, count: int) -> Times:
    """`count` lives in `at_once` lanes; each lane holds its workspace until all lanes have theirs."""
    ready: list[float] = []
    gone: list[float] = []

    async def lane(number: int, together: asyncio.Barrier) -> None:
        began = time.perf_counter()
        handle = await contender.start()
        ready.append(time.perf_counter() - began)
        await together.wait()
        began = time.perf_counter()
        await contender.stop(handle)
        gone.append(time.perf_counter() - began)

    for _ in range(max(count // at_once, 1)):
        together = asyncio.Barrier(at_once)
        await asyncio.gather(*(lane(number, together) for number in range(at_once)))
    return ready, gone


async def measure(contender: Contender, root: Path, at_once: list[int]) -> dict[int, Times] | str:
    """Times by number at once, or why there are none."""
    if reason := await contender.prepare(root):
        return reason
    try:
        first, _ = await lives(contender, 1, 2)
        slow = min(first) > SLOW_S
        return {
            number: await lives(contender, number, 3 if slow else max(2 * number, 15))
            for number in at_once
            if not (slow and number > SLOW)
        }
    finally:
        await contender.close()


def cell(times: Times | None) -> str:
    """Medians in milliseconds."""
    return "-" if times is None else f"{1e3 * median(times[0]):.1f} / {1e3 * median(times[1]):.1f}"


def main() -> None:
    """Measure everything and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 8, 64])
    given = parser.parse_args()
    top = Path(tempfile.mkdtemp(prefix="swe-bench-root-"))
    top.chmod(0o755)
    root = top / "root"
    root.mkdir()
    try:
        make_root(root)
        if shutil.which("docker"):  # without a daemon those who need one say so
            pack = f"tar -C {root} -c . | docker import - {DOCKER_TAG}"
            subprocess.run(["bash", "-o", "pipefail", "-c", pack], check=False, capture_output=True)
        rows, missing = [], []
        floor = Floor(root)
        times = {number: floor.measure(number, max(2 * number, 30)) for number in given.at_once}
        floor.close()
        rows.append((Floor.name, times))
        for contender in contenders(root):
            found = asyncio.run(measure(contender, root, given.at_once))
            if isinstance(found, str):
                missing.append(f"{contender.name}: {found}")
            else:
                rows.append((contender.name, found))
            print(
                contender.name, found if isinstance(found, str) else {n: cell(t) for n, t in found.items()}, flush=True
            )
        size_mib = int(
            subprocess.run(["du", "-sm", root], capture_output=True, text=True, check=True).stdout.split()[0]
        )
    finally:
        close_zygote()
        shutil.rmtree(top, ignore_errors=True)
    head = [f"ready / gone, ms, {number} at once" for number in given.at_once]
    lines = [
        f"`make bench-environments` ({machine()}), an image of {size_mib} MiB; medians."
        + "".join(f" Not here: {reason}." for reason in missing),
        "",
        f"| | {' | '.join(head)} |",
        f"|---|{'---|' * len(head)}",
        *(f"| {name} | {' | '.join(cell(times.get(number)) for number in given.at_once)} |" for name, times in rows),
    ]
    write_section("bench-environments", "\n".join(lines))


if __name__ == "__main__":
    main()
