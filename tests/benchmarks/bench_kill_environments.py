"""kill -9 of the owner of environments: `python tests/benchmarks/bench_kill_environments.py [--kills 300] [--seed 1]`.

Three hundred random instants for each backend (`make bench-kill-environments`, as root, with dockerd). Writes a table
to docs/benchmarks.md; exit code 1 if anything is left after a next start. `--parts FILE` keeps what was
counted, and adds what earlier calls, with other seeds, have counted.
"""

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from page import machine, write_section

sys.path.insert(0, str(Path(__file__).parents[1]))

from environments.docker.dockerd import running_dockerd
from environments.kill_owner import LANES, PHASES
from environments.kills import DockerPlace, Outcome, Place, play


def measure(backend: str, kills: int, seed: int) -> Outcome:
    """Outcome for one backend, in directories of its own."""
    with ExitStack() as stack:
        top = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="swe-k-")))
        for name in ("home", "scratch", "dockerd"):
            (top / name).mkdir()
        os.environ["SWE_PLUGIN_HOME"] = str(top / "home")
        if backend == "sandbox":
            return play(Place(backend, top / "scratch"), kills, seed)
        dockerd = stack.enter_context(running_dockerd(top / "dockerd"))
        os.environ["DOCKER_HOST"] = dockerd.host
        return play(DockerPlace(backend, top / "scratch", dockerd), kills, seed)


def main() -> int:
    """Exit code: 1 if something was left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parts", type=Path)
    parser.add_argument("--backend", nargs="+", default=["sandbox", "docker"])
    given = parser.parse_args()
    left = []
    for backend in given.backend:
        found = measure(backend, given.kills, given.seed)
        parts = {f"{backend} {given.seed}": {**vars(found), "phases": dict(found.phases)}}  # asdict breaks a Counter
        if given.parts:
            parts |= json.loads(given.parts.read_text()) if given.parts.exists() else {}
            given.parts.write_text(json.dumps(parts))
        seeds = sorted(name.split()[1] for name in parts if name.split()[0] == backend)
        outcome = total([Outcome(**parts[f"{backend} {seed}"]) for seed in seeds])
        left += [f"{backend}: {item}" for item in outcome.left]
        text = table(backend, outcome, ", ".join(seeds))
        print(text, *left, sep="\n", flush=True)
        write_section(f"bench-kill-environments-{backend}", text)
    return int(bool(left))


def total(parts: list[Outcome]) -> Outcome:
    """Their sum."""
    phases = sum((Counter(part.phases) for part in parts), Counter())
    left = [item for part in parts for item in part.left]
    return Outcome(sum(part.kills for part in parts), phases, sum(part.held for part in parts), left)


def table(backend: str, outcome: Outcome, seed: str) -> str:
    """For the page."""
    counts = " | ".join(str(outcome.phases[phase]) for phase in PHASES)
    return "\n".join(
        [
            f"`make bench-kill-environments` ({machine()}), {backend}, seed {seed}; {LANES} lanes an owner.",
            "",
            f"| kills | leases held | {' | '.join(PHASES)} | left after the next start |",
            "|---" * (len(PHASES) + 3) + "|",
            f"| {outcome.kills} | {outcome.held} | {counts} | {len(outcome.left)} |",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
