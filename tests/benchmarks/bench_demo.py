"""The embedded demo over several seeds: `python tests/benchmarks/bench_demo.py 0 1 2 3 4` (`make bench-demo`).

`JOBS=2` runs two seeds at once, which is faster in all; the minutes of each are then longer than those of a run alone.
`FOLDER=outputs/bench-demo-...` goes on where an interrupted one stopped: seeds that ended there are not run again.

Each seed is one whole run of `python -m verl.trainer.main_ppo +plugin=swe swe.demo.seed=<seed>`, from the tasks to the
last validation. Writes every seed's curve, good or bad, to docs/benchmarks.md after each run. Exit code 1 if fewer
than four fifths of the seeds reach the targets.
"""

import json
import math
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from page import machine, write_section

from swe_plugin.cli.metrics import REWARD, mean_of, read_steps
from swe_plugin.cli.report import summarize

MIN_REWARD = 0.6
MIN_RATIO = 2.5
MIN_HELD_OUT_GAIN = 0.25
MIN_CORRELATION = 0.99
MAX_DROP = 0.3
"""A collapse: the mean of five steps falls by more than this below the best five so far."""
_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Seed:
    """What one run came to. `curve` holds the mean reward of five steps each."""

    seed: int
    exit_code: int
    minutes: float
    curve: list[float]
    summary: dict[str, Any]

    @property
    def misses(self) -> list[str]:
        """The targets that were not reached, in words."""
        if self.exit_code:
            return [f"exit code {self.exit_code}"]
        first, last = self.summary["reward_first"], self.summary["reward_last"]
        before, after = self.summary["held_out_before"], self.summary["held_out_after"]
        best = [max(self.curve[: number + 1]) for number in range(len(self.curve))]
        checks = {
            "reward": last >= MIN_REWARD,
            "ratio": last >= MIN_RATIO * first,
            "held-out": None not in (before, after) and after - before >= MIN_HELD_OUT_GAIN,
            "correlation": (self.summary["correlation_min"] or 0.0) >= MIN_CORRELATION,
            "collapse": all(high - now <= MAX_DROP for high, now in zip(best, self.curve, strict=True)),
        }
        return [name for name, reached in checks.items() if not reached]


def run_seed(seed: int, folder: Path, words: list[str]) -> Seed:
    """Train once, unless this seed has ended here before."""
    ended = folder / f"seed-{seed}" / "bench.json"
    if not ended.exists():
        started = time.monotonic()
        code = _train(seed, folder, words)
        ended.parent.mkdir(parents=True, exist_ok=True)
        ended.write_text(json.dumps({"exit_code": code, "minutes": (time.monotonic() - started) / 60}))
    return _read(seed, ended)


def _train(seed: int, folder: Path, words: list[str]) -> int:
    words = [f"swe.demo.seed={seed}", f"swe.output.dir={folder}", f"swe.output.run=seed-{seed}", *words]
    return subprocess.run([Path(sys.executable).parent / "swe-plugin", "train", *words]).returncode


def _read(seed: int, ended: Path) -> Seed:
    """A run that died has whatever curve it got to."""
    result, run = json.loads(ended.read_text()), ended.parent
    code, minutes = result["exit_code"], result["minutes"]
    try:
        steps = [step for step in read_steps(run) if step.trained]
    except FileNotFoundError:
        return Seed(seed, code or 1, minutes, [], {})
    windows = [steps[start : start + 5] for start in range(0, len(steps), 5)]
    return Seed(seed, code, minutes, [mean_of(window, REWARD) or 0.0 for window in windows], summarize(run))


def render(seeds: list[Seed], command: str) -> str:
    """The section of the page."""
    good = sum(not seed.misses for seed in seeds)
    lines = [
        f"`{command}` ({machine()}): {good} of {len(seeds)} seeds reach all targets.\n",
        "| seed | reward, first five | last five | held-out before | after | correlation | minutes | curve | missed |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for seed in seeds:
        names = ("reward_first", "reward_last", "held_out_before", "held_out_after", "correlation_min")
        cells = ["-" if (value := seed.summary.get(name)) is None else f"{value:.3f}" for name in names]
        missed = ", ".join(seed.misses) or "-"
        lines.append(f"| {seed.seed} | {' | '.join(cells)} | {seed.minutes:.1f} | {sparkline(seed.curve)} | {missed} |")
    lines.append("\nMean reward of five steps each:\n\n```text")
    lines += [f"seed {seed.seed}: " + " ".join(f"{value:.2f}" for value in seed.curve) for seed in seeds]
    baselines = next((seed.summary["baselines"] for seed in seeds if seed.summary.get("baselines")), {})
    lines += [f"held-out tasks resolved by {name}: {value:.3f}" for name, value in baselines.items()]
    return "\n".join([*lines, "```"])


def sparkline(values: list[float]) -> str:
    """Rewards between 0 and 1 as one character each."""
    return "".join(_BARS[min(7, max(0, int(8 * value)))] for value in values)


def main(arguments: list[str]) -> int:
    """Numbers are seeds; words with `=` go to every run."""
    numbers = [int(word) for word in arguments if word.isdigit()] or list(range(5))
    words = [word for word in arguments if "=" in word]
    command = f'make bench-demo SEEDS="{" ".join(arguments)}"' if arguments else "make bench-demo"
    command += f" JOBS={os.environ['JOBS']}" if "JOBS" in os.environ else ""
    new = Path("outputs", datetime.now().strftime("bench-demo-%Y-%m-%d_%H-%M-%S"))
    folder = Path(os.environ.get("FOLDER") or new).absolute()
    seeds: list[Seed] = []
    with ThreadPoolExecutor(int(os.environ.get("JOBS", "1"))) as jobs:
        for run in as_completed([jobs.submit(run_seed, number, folder, words) for number in numbers]):
            seeds = sorted([*seeds, run.result()], key=lambda seed: seed.seed)
            write_section("bench-demo", render(seeds, command))
    return int(sum(not seed.misses for seed in seeds) < math.ceil(0.8 * len(seeds)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
