"""Environments side by side: `python tests/benchmarks/bench_environments.py` (`make bench-environments`), as root.

One root directory of a few hundred MB (this machine's Python and git, numpy, sympy, a repository); each contender
starts workspaces from it, 1, 8 and 64 at once. *Ready* is the time from asking to the answer of a first command, *gone*
that of removing everything. Needs root, a C compiler, bubblewrap, a Docker daemon and `agentbox-rl`; what is missing is
left out and named. Prints a table and writes it to docs/benchmarks.md. `--keep DIR --only NAME` measures in parts: root
directory and figures stay in DIR, and the page has all figures that are there.
"""

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from contenders import DOCKER_TAG, WORKDIR, AgentBox, Bubblewrap, Chroot, Contender, Docker, DockerReady, Floor, Ours
from page import machine, write_section

from swe_plugin.environments.images import resolve
from swe_plugin.environments.sandbox import SandboxEnvironment, close_zygote
from swe_plugin.types import Image

SLOW = 16
"""Contenders that took longer than `SLOW_S` alone are tried with at most this many at once."""
SLOW_S = 1.0
LONG_S = 0.1
"""Contenders that took longer alone have each lane once where many start at once."""
PAUSE_S = 0.2
"""Before each burst, for every contender: what prepares for the next one may."""
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
        name = "docker, containers made ahead"
        found.append(DockerReady(name, DockerEnvironment, f"docker:{DOCKER_TAG}", user="1000:1000"))
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
        await contender.settle(at_once)
        await asyncio.sleep(PAUSE_S if at_once > 1 else 0)
        together = asyncio.Barrier(at_once)
        await asyncio.gather(*(lane(number, together) for number in range(at_once)))
    return ready, gone


async def measure(contender: Contender, root: Path, at_once: list[int]) -> dict[int, Times] | str:
    """Times by number at once, or why there are none."""
    if reason := await contender.prepare(root):
        return reason
    try:
        first, _ = await lives(contender, 1, 2)
        slow, rounds = min(first) > SLOW_S, 1 if min(first) > LONG_S else 2
        return {
            number: await lives(contender, number, 3 if slow else max(rounds * number, 24))
            for number in at_once
            if number <= (SLOW if slow else contender.most)
        }
    finally:
        await contender.close()


def cell(times: Times) -> str:
    """Medians in milliseconds."""
    return f"{1e3 * median(times[0]):.1f} / {1e3 * median(times[1]):.1f}"


def measure_all(root: Path, at_once: list[int], only: list[str]) -> dict[str, dict[int, Times] | str]:
    """Times by name and number at once, or why there are none."""
    found: dict[str, dict[int, Times] | str] = {}
    if not only or Floor.name in only:
        floor = Floor(root)
        found[Floor.name] = {number: floor.measure(number, max(2 * number, 30)) for number in at_once}
        floor.close()
    try:
        for contender in contenders(root):
            if not only or contender.name in only:
                found[contender.name] = asyncio.run(measure(contender, root, at_once))
                print(contender.name, "measured", flush=True)
    finally:
        close_zygote()
    return found


def merged(kept: Path, found: dict[str, dict[int, Times] | str]) -> dict[str, dict[str, str] | str]:
    """What is in the file, and what was found, which goes there too: cells by name and number at once."""
    rows: dict[str, dict[str, str] | str] = json.loads(kept.read_text()) if kept.exists() else {}
    for name, times in found.items():
        if isinstance(times, str):
            rows[name] = times
        else:
            before = rows.get(name)
            cells = {str(number): cell(one) for number, one in times.items()}
            rows[name] = {**(before if isinstance(before, dict) else {}), **cells}
    kept.write_text(json.dumps(rows))
    return rows


def main() -> None:
    """Measure everything and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 8, 64, 256])
    parser.add_argument("--only", nargs="+", default=[], help="contenders by name")
    parser.add_argument("--keep", type=Path, help="directory for the root and the figures of a run in parts")
    given = parser.parse_args()
    top = given.keep or Path(tempfile.mkdtemp(prefix="swe-bench-root-"))
    top.mkdir(exist_ok=True)
    top.chmod(0o755)
    root = top / "root"
    try:
        if not root.exists():
            root.mkdir()
            make_root(root)
        if shutil.which("docker") and subprocess.run(["docker", "inspect", DOCKER_TAG], capture_output=True).returncode:
            pack = f"tar -C {root} -c . | docker import - {DOCKER_TAG}"  # without a daemon those who need one say so
            subprocess.run(["bash", "-o", "pipefail", "-c", pack], check=False, capture_output=True)
        rows = merged(top / "figures.json", measure_all(root, given.at_once, given.only))
        size = subprocess.run(["du", "-sm", root], capture_output=True, text=True, check=True).stdout.split()[0]
    finally:
        if given.keep is None:
            shutil.rmtree(top, ignore_errors=True)
    numbers = sorted({int(number) for cells in rows.values() if isinstance(cells, dict) for number in cells})
    head = [f"ready / gone, ms, {number} at once" for number in numbers]
    lines = [
        f"`make bench-environments` ({machine()}), an image of {size} MiB; medians."
        + "".join(f" Not here: {name}: {why}." for name, why in rows.items() if isinstance(why, str)),
        "",
        f"| | {' | '.join(head)} |",
        f"|---|{'---|' * len(head)}",
        *(
            f"| {name} | {' | '.join(cells.get(str(number), '-') for number in numbers)} |"
            for name, cells in rows.items()
            if isinstance(cells, dict)
        ),
    ]
    print("\n".join(lines))
    write_section("bench-environments", "\n".join(lines))


if __name__ == "__main__":
    main()
