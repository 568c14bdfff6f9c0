"""Reading the metrics file that verl's `file` logger writes: one JSON object ``{"step", "data"}`` per line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

__all__ = [
    "CORRELATION",
    "METRICS_FILE",
    "REWARD",
    "STEP_S",
    "Step",
    "held_out",
    "mean_of",
    "parse_lines",
    "read_steps",
]

METRICS_FILE = "metrics.jsonl"
REWARD = "critic/score/mean"
"""Mean reward over the rows of a step, as verl names it."""
STEP_S = "timing_s/step"
CORRELATION = "training/rollout_actor_probs_pearson_corr"
"""Pearson correlation of the sampler's and the trainer's probabilities of the sampled tokens."""
_HELD_OUT = re.compile(r"^val-core/(?P<source>.+)/(?:acc|reward)/mean@\d+$")


@dataclass(frozen=True, slots=True)
class Step:
    """What verl logged for one step; step 0 is the validation before training."""

    number: int
    values: dict[str, float]

    @property
    def trained(self) -> bool:
        """Whether the line belongs to a training step (and not to a validation alone)."""
        return REWARD in self.values


def parse_lines(lines: Iterable[str]) -> list[Step]:
    """Parse metrics lines; a last line that is still being written is left out, non-numbers too."""
    steps = []
    for line in lines:
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        numbers = {key: float(value) for key, value in record["data"].items() if isinstance(value, int | float)}
        steps.append(Step(int(record["step"]), numbers))
    return steps


def read_steps(run_dir: Path) -> list[Step]:
    """Steps of a run, in order. A resumed run has further files; a step that was run again counts once.

    Raises:
        FileNotFoundError: the run has written no metrics.
    """
    first = run_dir / METRICS_FILE
    further = sorted(run_dir.glob(f"{first.stem}-*{first.suffix}"), key=lambda path: (len(path.name), path.name))
    steps: dict[int, Step] = {}
    for path in (first, *further):
        with path.open(encoding="utf-8") as lines:
            steps |= {step.number: step for step in parse_lines(lines)}
    return [steps[number] for number in sorted(steps)]


def held_out(step: Step) -> float | None:
    """Resolved rate on held-out tasks, averaged over data sources; None where this step did not validate."""
    rates = [value for key, value in step.values.items() if _HELD_OUT.match(key)]
    return fmean(rates) if rates else None


def mean_of(steps: Iterable[Step], key: str) -> float | None:
    """Mean of one metric over the steps that have it."""
    values = [step.values[key] for step in steps if key in step.values]
    return fmean(values) if values else None
