"""Where the start of a sandbox goes: `python tests/benchmarks/bench_phases.py` (`make bench-phases`), as root.

The processes that take part stamp the moments of `phase_marks.CHAIN`; the page gets the median of each phase, alone and
several at once, on the image of `bench_environments`.
"""

import argparse
import asyncio
import socket
import tempfile
import time
from pathlib import Path
from statistics import median

from bench_environments import lives, make_root
from contenders import Ours
from page import machine, write_section
from phase_marks import AHEAD, CHAIN, Marks

from swe_plugin.environments.removal import remove_tree
from swe_plugin.environments.sandbox import SandboxEnvironment, close_zygote, owner, zygote
from swe_plugin.environments.sandbox.owner import ZygoteProcess
from swe_plugin.types import ExecResult

ENTRY = """\
import runpy, sys
sys.path.insert(0, {here!r})
from pathlib import Path
from phase_marks import watch_zygote
runpy.run_path({entry!r}, run_name="entry")["alone"]()
watch_zygote(Path({top!r}))
from swe_plugin.environments.sandbox.zygote.server import serve
serve(int(sys.argv[1]))
"""
COLUMNS = {name: column for column, (_, module, name, _) in enumerate(CHAIN, 1) if module == "owner"}
ROUNDS = 3


class Watched(SandboxEnvironment):
    """Stamps what its owner does."""

    marks: Marks

    async def start(self) -> None:
        """See `SandboxEnvironment`."""
        began = time.monotonic_ns()
        await super().start()
        self.marks.stamp(COLUMNS["start"], self._number)
        self.marks.stamp(0, self._number, began)

    async def shell(self, script: str, *, timeout_s: float = 60.0) -> ExecResult:
        """See `SandboxEnvironment`."""
        result = await super().shell(script, timeout_s=timeout_s)
        self.marks.stamp(COLUMNS["shell"], self._number)
        return result


class WatchedZygote(ZygoteProcess):
    """Stamps the moment of a request."""

    def _try_start(self, number: int, end: socket.socket, mode: str, network: str, *, trial: bool = False) -> bool:
        Watched.marks.stamp(COLUMNS["request"], number)
        return super()._try_start(number, end, mode, network, trial=trial)


def phases(root: Path, top: Path, mode: str, at_once: int) -> list[float]:
    """Milliseconds of each phase, medians over sandboxes of one zygote: ahead, asked for, the whole of that."""
    top.mkdir()
    entry = str(Path(zygote.__file__).parent / "__main__.py")
    script = ENTRY.format(here=str(Path(__file__).parent), entry=entry, top=str(top))
    (top / "__main__.py").write_text(script)
    Watched.marks = Marks(top / "asked", CHAIN)
    ours = Ours(mode, Watched, f"rootfs:{root}", mode=mode)
    real, zygote.__file__ = zygote.__file__, str(top / "__init__.py")
    owner.ZygoteProcess = WatchedZygote  # type: ignore[misc]
    try:
        asyncio.run(lives(ours, 1, 2))  # the image's set-up
        Watched.marks.clear()
        asyncio.run(lives(ours, at_once, max(ROUNDS * at_once, 30)))
    finally:
        close_zygote()
        zygote.__file__ = real
    ahead, asked = list(Marks(top / "ahead", AHEAD).rows()), list(Watched.marks.rows())
    columns = [*zip(*ahead, strict=True), *zip(*asked, strict=True), [sum(row) for row in asked]]
    return [median(column) / 1e6 for column in columns]


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--mode", nargs="+", default=["root", "rootmap"])
    parser.add_argument("--root", type=Path, help="an existing root directory, instead of a new one")
    given = parser.parse_args()
    top = Path(tempfile.mkdtemp(prefix="swe-bench-phases-"))
    top.chmod(0o755)
    try:
        if given.root is None:
            (top / "root").mkdir()
            make_root(top / "root")
        kinds = [(mode, number) for mode in given.mode for number in given.at_once]
        found = [phases(given.root or top / "root", top / f"{mode}-{number}", mode, number) for mode, number in kinds]
    finally:
        remove_tree(top)
    names = [
        *(f"*ahead:* {phase}" for phase, *_ in AHEAD),
        *(phase for phase, *_ in CHAIN),
        "**from asking to the first answer**",
    ]
    rows = zip(names, *found, strict=True)
    lines = [
        f"`make bench-phases` ({machine()}); medians in ms.",
        "",
        f"| phase | {' | '.join(f'{mode}, {number} at once' for mode, number in kinds)} |",
        f"|---|{'---|' * len(kinds)}",
        *(f"| {name} | {' | '.join(f'{value:.2f}' for value in row)} |" for name, *row in rows),
    ]
    print("\n".join(lines))
    write_section("bench-phases", "\n".join(lines))


if __name__ == "__main__":
    main()
