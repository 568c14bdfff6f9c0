"""The table at the end of a run: what was learned, what it cost, where the evidence lies.

Reads only files of the run directory (`metrics.jsonl`, `baselines.json`), so it works on any run at any time.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from swe_plugin.cli.metrics import CORRELATION, REWARD, STEP_S, Step, held_out, mean_of, read_steps

__all__ = ["BASELINES_FILE", "print_report", "summarize"]

BASELINES_FILE = "baselines.json"
"""``{"untrained": 0.1, "random_policy": ..}``: resolved rates on the held-out tasks without any training."""
RESOLVED = "swe/resolved"
CACHE_HITS = "swe/grade/cache_hit_rate"
FAILED = "swe/failed_total"
STOP = "swe/stop/"
_ROWS = 60  # of the table of steps; longer runs are averaged over equal windows
_ROLLOUT = {
    "swe/env/wait_s/mean": "waiting for a slot",
    "swe/env/start_s/mean": "environment start",
    "swe/generate_s/mean": "model",
    "swe/env/exec_s/mean": "commands",
    "swe/grade/s/mean": "grading",
    "swe/rollout_s/mean": "rollout in all",
}
_PHASES = {
    "gen": "rollouts",
    "reward": "reward",
    "old_log_prob": "old log-probs",
    "ref": "reference",
    "values": "values",
    "adv": "advantages",
    "update_critic": "critic update",
    "update_actor": "actor update",
    "update_weights": "weights to the sampler",
    "testing": "held-out tasks",
    "save_checkpoint": "checkpoints",
}


def summarize(run_dir: Path) -> dict[str, Any]:
    """The report as data (`swe-plugin report --json`).

    Keys: steps, window (five, or half of a shorter run), reward_first, reward_last (means of the first and last
    `window` steps), held_out_before, held_out_after, correlation_min, cache_hit_rate, failed, stops (reason ->
    fraction, last steps), seconds (per phase, whole run), baselines, trajectories. A value is None where the run
    has no such measurement.

    Raises:
        FileNotFoundError: no metrics file in `run_dir`.
    """
    steps = read_steps(run_dir)
    trained = [step for step in steps if step.trained]
    window = min(5, max(1, len(trained) // 2))
    validated = [rate for step in steps if (rate := held_out(step)) is not None]
    correlations = [step.values[CORRELATION] for step in trained if CORRELATION in step.values]
    failed = [step.values[FAILED] for step in trained if FAILED in step.values]
    return {
        "steps": len(trained),
        "window": window,
        "reward_first": mean_of(trained[:window], REWARD),
        "reward_last": mean_of(trained[-window:], REWARD),
        "held_out_before": validated[0] if steps and held_out(steps[0]) is not None else None,
        "held_out_after": validated[-1] if len(validated) > 1 else None,
        "correlation_min": min(correlations, default=None),
        "cache_hit_rate": mean_of(trained, CACHE_HITS),
        "failed": sum(failed) if failed else None,
        "stops": _stops(trained[-window:]),
        "seconds": _seconds(steps),
        "baselines": _baselines(run_dir),
        "trajectories": str(run_dir / "step_*") if any(run_dir.glob("step_*")) else None,
    }


def print_report(run_dir: Path | str, console: Console | None = None) -> None:
    """Print the report of one run.

    Raises:
        FileNotFoundError: no metrics file in `run_dir`.
    """
    run_dir = Path(run_dir)
    steps = read_steps(run_dir)
    (console or Console()).print(
        Group(
            _step_table(steps),
            _time_table("time of the run", _seconds(steps)),
            *([_time_table("mean rollout", rollout, share=False)] if (rollout := _rollout_seconds(steps)) else []),
            _result_table(run_dir, summarize(run_dir)),
        )
    )


def _seconds(steps: list[Step]) -> dict[str, float]:
    """Seconds per phase over the whole run, `other` being what verl's step timer saw outside of them."""
    seconds = {
        name: total
        for key, name in _PHASES.items()
        if (total := sum(step.values.get(f"timing_s/{key}", 0.0) for step in steps))
    }
    inside = sum(value for name, value in seconds.items() if name != _PHASES["testing"])
    other = sum(step.values.get(STEP_S, 0.0) for step in steps) - inside
    return seconds | ({"other": other} if other > 0 else {})


def _rollout_seconds(steps: list[Step]) -> dict[str, float]:
    """Mean seconds of one rollout per activity, over the training steps."""
    means = {name: mean_of(steps, key) for key, name in _ROLLOUT.items()}
    return {name: value for name, value in means.items() if value is not None}


def _stops(steps: list[Step]) -> dict[str, float]:
    """How rollouts ended, as fractions, the most frequent first; reasons that did not occur are left out."""
    keys = {key for step in steps for key in step.values if key.startswith(STOP)}
    rates = {key.removeprefix(STOP): mean_of(steps, key) or 0.0 for key in keys}
    return {name: rate for name, rate in sorted(rates.items(), key=lambda item: -item[1]) if rate}


def _baselines(run_dir: Path) -> dict[str, float]:
    path = run_dir / BASELINES_FILE
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _step_table(steps: list[Step]) -> Table:
    width = max(1, math.ceil(len(steps) / _ROWS))
    table = Table(title="steps" if width == 1 else f"steps (means over {width})", title_justify="left")
    for name in ("step", "reward", "resolved", "held-out", "failed", "seconds"):
        table.add_column(name, justify="right")
    table.add_column("")
    before = [step for step in steps if not step.trained]
    trained = [step for step in steps if step.trained]
    windows = [trained[start : start + width] for start in range(0, len(trained), width)]
    for window in [[step] for step in before] + windows:
        first, last = window[0].number, window[-1].number
        rates = [rate for step in window if (rate := held_out(step)) is not None]
        reward = mean_of(window, REWARD)
        table.add_row(
            str(first) if first == last else f"{first}-{last}",
            _number(reward),
            _number(mean_of(window, RESOLVED)),
            _number(rates[-1] if rates else None),
            _number(sum(failed) if (failed := [s.values[FAILED] for s in window if FAILED in s.values]) else None, 0),
            _number(mean_of(window, STEP_S), 1),
            Text("█" * round(14 * max(0.0, min(1.0, reward or 0.0))), style="green"),
        )
    return table


def _time_table(title: str, seconds: dict[str, float], *, share: bool = True) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("phase")
    table.add_column("seconds", justify="right")
    if share:
        table.add_column("share", justify="right")
    total = sum(seconds.values())
    for name, value in sorted(seconds.items(), key=lambda item: -item[1]) if share else seconds.items():
        table.add_row(name, f"{value:.{1 if share else 3}f}", *([f"{value / total:.0%}"] if share else []))
    return table


def _result_table(run_dir: Path, summary: dict[str, Any]) -> Table:
    table = Table(title="result", title_justify="left", show_header=False)
    table.add_column("what")
    table.add_column("value", overflow="fold")
    table.add_row(
        f"reward, first {summary['window']} steps -> last", _change(summary["reward_first"], summary["reward_last"])
    )
    table.add_row("held-out tasks resolved", _change(summary["held_out_before"], summary["held_out_after"]))
    for name, value in summary["baselines"].items():
        table.add_row(f"baseline: {name.replace('_', ' ')}", _number(value))
    table.add_row("sampler-trainer correlation, lowest", _number(summary["correlation_min"], 5))
    table.add_row("grades from the cache", _percent(summary["cache_hit_rate"]))
    table.add_row("rollouts failed (no row)", _number(summary["failed"], 0))
    ends = ", ".join(f"{name} {rate:.0%}" for name, rate in summary["stops"].items())
    table.add_row("rollouts ended by, last steps", ends or "-")
    table.add_row("trajectories", summary["trajectories"] or "not recorded")
    table.add_row("run", str(run_dir))
    return table


def _number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _change(before: float | None, after: float | None) -> str:
    text = f"{_number(before)} -> {_number(after)}"
    if before is None or after is None:
        return text
    return f"{text}  ({after - before:+.3f})"
