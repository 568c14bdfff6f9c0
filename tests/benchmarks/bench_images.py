"""The image store at the limit: `python tests/benchmarks/bench_images.py` (`make bench-images`), as root.

One image of a few hundred MB (this machine's Python and git, numpy, sympy) with a repository of sixty commits, as an
OCI layout of two layers: making the store of it beside what unpacks a tar for each environment; fifty instances, each
with a base commit of its own, of that repository; eight processes that want the same twenty images at once.
"""

import gzip
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from bench_environments import make_root
from contenders import WORKDIR
from page import load, machine, write_section

sys.path.insert(0, str(Path(__file__).parents[1]))
from environments.image_archives import layer, oci_layout

from swe_plugin.environments.images import ImageStore, resolve
from swe_plugin.types import Image

AGENT = (1000, 1000)
INSTANCES, COMMITS = 50, 60
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


def builds(top: Path, layers: list[bytes], commits: list[str]) -> dict[str, str]:
    """Rows on the one image."""
    size_mb, rows = sum(map(len, layers)) / 1e6, {}
    for name, compress, suffix in (("plain", bytes, ""), ("gzip", lambda data: gzip.compress(data, 6), " of gzip")):
        layout = oci_layout(top / name, {"image": layers}, compress=compress)
        store = ImageStore(top / f"store-{name}")
        image = Image(f"oci:{layout}#image", workdir=WORKDIR)
        took = timed(lambda image=image, store=store: resolve(image, owner=AGENT, store=store).release(), top)
        rows[f"the store built from layers{suffix}"] = f"{took:.1f} s, {size_mb / took:.0f} MB/s"
    for number, data in enumerate(layers):
        (top / f"{number}.tar").write_bytes(data)

    def unpack(target: Path) -> None:
        target.mkdir()
        for number in range(len(layers)):
            subprocess.run(["tar", "-C", target, "-xf", top / f"{number}.tar"], check=True)

    took = timed(lambda: unpack(top / "unpacked"), top)
    rows["the tar way (GNU tar), for each environment"] = f"{took:.1f} s, {disk_mib(top / 'unpacked'):.0f} MiB"
    began = time.perf_counter()
    resolve(image, owner=AGENT, store=store).release()
    again = time.perf_counter() - began
    rows["the store's way, for each further environment"] = f"{1000 * again:.1f} ms, 0 MiB"
    shutil.rmtree(top / "unpacked")

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
