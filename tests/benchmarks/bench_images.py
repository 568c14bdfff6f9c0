"""The image store at the limit: `python tests/benchmarks/bench_images.py` (`make bench-images`), as root.

One image of a few hundred MB (this machine's Python and git, numpy, sympy) with a repository of sixty commits, as an
OCI layout of two layers: making the store of it beside what unpacks a tar for each environment and beside the disk
itself (all written out, the best of three in turn); fifty instances, each with a base commit of
its own, of that repository; eight processes that want the same twenty images at once.
"""

import gzip
import math
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench_environments import make_root
from contenders import WORKDIR
from page import load, machine, write_section

sys.path.insert(0, str(Path(__file__).parents[1]))
from environments.image_archives import layer, oci_layout

from swe_plugin.environments.images import ImageStore, resolve
from swe_plugin.types import Image

AGENT = (1000, 1000)
INSTANCES, COMMITS, TURNS = 50, 60, 3
PROCESSES, IMAGES, LAYER_MIB = 8, 20, 4


class Counting(ImageStore):
    """Writes down each layer that it builds."""

    def _build(self, key: str, build: Callable[[Path], None], what: str) -> None:
        with (self.root / "builds").open("a") as log:
            log.write(f"{key}\n")
        super()._build(key, build, what)


def make_history(root: Path) -> list[str]:
    """Put sympy's sources into the first commit, then commits that change a file each; their ids, oldest first."""
    work = root / WORKDIR.lstrip("/")
    shutil.copytree(root / "usr/lib/python3/dist-packages/sympy", work / "sympy")
    git = ["git", "-C", str(work), "-c", "user.name=b", "-c", "user.email=b@b", "-c", "safe.directory=*"]
    for words in (["add", "-A"], ["commit", "-q", "--amend", "-m", "sources"]):
        subprocess.run([*git, *words], check=True)
    sources = sorted((work / "sympy").rglob("*.py"))
    for number in range(COMMITS):
        path = sources[number * len(sources) // COMMITS]
        path.write_text(f"# change {number}\n{path.read_text()}")
        for words in (["add", "-A"], ["commit", "-qm", f"change {number}"]):
            subprocess.run([*git, *words], check=True)
    subprocess.run([*git, "gc", "-q"], check=True)
    subprocess.run(["chown", "-R", "1000:1000", str(work)], check=True)
    done = subprocess.run([*git, "rev-list", "--reverse", "HEAD"], check=True, capture_output=True, text=True)
    return done.stdout.split()


def tar(root: Path, *words: str) -> bytes:
    """A layer's content."""
    return subprocess.run(["tar", "-C", root, "-c", *words], check=True, capture_output=True).stdout


def disk_mib(path: Path) -> float:
    """Blocks, hard links counted once."""
    done = subprocess.run(["du", "-sk", path], check=True, capture_output=True, text=True)
    return int(done.stdout.split()[0]) / 1024


def timed(call: Callable[[], object], disk: Path) -> float:
    """Seconds, all written out."""
    os.sync()
    began = time.perf_counter()
    call()
    subprocess.run(["sync", "-f", disk], check=True)
    return time.perf_counter() - began


def speeds(top: Path, layout: Path, tars: list[Path], size_mb: float) -> dict[str, str]:
    """Rows of one image's layers: into the store, beside what the disk and GNU tar need for the same bytes."""
    image, name = Image(f"oci:{layout}#image", workdir="/usr"), layout.name

    def write(turn: int) -> None:
        with (top / f"one-{turn}").open("wb") as file:
            subprocess.run(["cat", *tars], check=True, stdout=file)

    def unpack(turn: int) -> None:
        (top / f"{name}-{turn}").mkdir()
        for path in tars:
            subprocess.run(["tar", "-C", top / f"{name}-{turn}", "-xf", path], check=True)

    def build(turn: int) -> None:
        resolve(image, owner=(0, 0), squash=False, store=ImageStore(top / f"store-{name}-{turn}")).release()

    best = dict.fromkeys((write, unpack, build), math.inf)
    for turn in range(TURNS):
        for call in best:
            best[call] = min(best[call], timed(partial(call, turn), top))
    rates = {call: f"{took:.2f} s, {size_mb / took:.0f} MB/s" for call, took in best.items()}
    rows = {"the disk alone: the same bytes as one file": rates[write]} if name == "plain" else {}
    return rows | {
        f"GNU tar, {name}, for each environment": f"{rates[unpack]}, {disk_mib(top / f'{name}-0'):.0f} MiB",
        f"the store's layers, {name}, once": f"{rates[build]}, {best[build] / best[unpack]:.2f} times GNU tar",
    }


def builds(top: Path, layers: list[bytes], commits: list[str]) -> dict[str, str]:
    """Rows on the one image."""
    size_mb, rows = sum(map(len, layers)) / 1e6, {}
    for name, compress in (("plain", bytes), ("gzip", lambda data: gzip.compress(data, 6))):
        tars = [top / f"{number}.{name}" for number in range(len(layers))]
        for path, data in zip(tars, layers, strict=True):
            path.write_bytes(compress(data))
        layout = oci_layout(top / name, {"image": layers}, compress=compress)
        rows |= speeds(top, layout, tars, size_mb)

    store, image = ImageStore(top / "store-plain-0"), Image(f"oci:{top / 'plain'}#image", workdir=WORKDIR)

    def again() -> None:
        resolve(image, owner=AGENT, store=store).release()

    rows["its repository, history cut at the base commit"] = f"{timed(again, top):.2f} s"
    began = time.perf_counter()
    again()
    rows["the store's way, for each further environment"] = f"{1000 * (time.perf_counter() - began):.1f} ms, 0 MiB"

    one = disk_mib(store.root)
    began = time.perf_counter()
    for commit in commits[-INSTANCES:-1]:
        instance = Image(image.base, workdir=WORKDIR, commit=commit)
        resolve(instance, owner=AGENT, store=store).release()
    each = (time.perf_counter() - began) / (INSTANCES - 1)
    many = disk_mib(store.root)
    rows[f"{INSTANCES} instances, a base commit each: disk of one, of all"] = (
        f"{one:.0f} MiB, {many:.0f} MiB: {many / one:.2f} times; {each:.2f} s each"
    )
    return rows


def crowd(top: Path) -> str:
    """Eight processes, the same images in different order."""
    shared = layer(*((f"usr/shared/{number}", "x" * 4096) for number in range(200)))
    own = [layer((f"opt/{number}", os.urandom(LAYER_MIB << 19).hex())) for number in range(IMAGES)]
    base = oci_layout(top / "many", {f"i{number}": [shared, data] for number, data in enumerate(own)}, compress=bytes)
    store = Counting(top / "store-many")
    store.root.mkdir()
    fork = multiprocessing.get_context("fork")

    def want(first: int) -> None:
        for number in range(IMAGES):
            files = {"a.py": f"# {(first + number) % IMAGES}\n"}
            image = Image(f"oci:{base}#i{(first + number) % IMAGES}", files=files)
            resolve(image, owner=AGENT, store=store).release()

    def all_want() -> None:
        processes = [fork.Process(target=want, args=(number * IMAGES // PROCESSES,)) for number in range(PROCESSES)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
            assert process.exitcode == 0

    took = timed(all_want, top)
    built = Counter((store.root / "builds").read_text().split())
    assert set(built.values()) == {1}, built
    assert len(built) == 1 + 2 * IMAGES, len(built)
    return f"{len(built)} layers, each built once; {took:.1f} s"


def main() -> None:
    """Measure, print, write."""
    top = Path(tempfile.mkdtemp(prefix="swe-bench-images-"))
    os.environ["SWE_PLUGIN_HOME"] = str(top / "home")
    try:
        root = top / "root"
        root.mkdir()
        make_root(root)
        commits = make_history(root)
        inside = WORKDIR.lstrip("/")
        layers = [tar(root, f"--exclude=./{inside}", "."), tar(root, f"./{inside}")]
        rows = builds(top, layers, commits)
        rows[f"{PROCESSES} processes want the same {IMAGES} images of three layers, one of them shared"] = crowd(top)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    size_mib = sum(map(len, layers)) / 2**20
    lines = [
        f"`make bench-images` ({machine()}, {load()}), an image of {size_mib:.0f} MiB:",
        "",
        "| what | |",
    ]
    text = "\n".join([*lines, "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())])
    print(text)
    write_section("bench-images", text)


if __name__ == "__main__":
    main()
