"""What `swe-plugin audit` says: the proof of the tokens, and how far sampler and trainer agree."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, median
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from swe_plugin.cli.metrics import CORRELATION, read_steps
from swe_plugin.trajectories.audit import RunAudit

__all__ = ["agreement", "as_data", "print_audit"]

_SHOWN = 20
"""Violations that are printed; `--json` has them all."""
_DIFFERENCE = "training/rollout_probs_diff_"
_NOT_RECORDED = "not recorded: the run's metrics have no training/rollout_probs_diff_*"


def agreement(run_dir: Path) -> dict[str, float] | None:
    """How far the trainer's probabilities of the sampled tokens are from the sampler's; None if not recorded.

    verl compares them token by token and keeps statistics per step, so the distribution here is over steps:
    mean and largest absolute difference of the probabilities, mean of the steps' standard deviations, and the
    Pearson correlation of the worst step and on average.
    """
    try:
        steps = read_steps(run_dir)
    except FileNotFoundError:
        return None
    names = {"mean": f"{_DIFFERENCE}mean", "max": f"{_DIFFERENCE}max", "std": f"{_DIFFERENCE}std", "r": CORRELATION}
    values = {name: [s.values[key] for s in steps if key in s.values] for name, key in names.items()}
    known = {name: [v for v in found if math.isfinite(v)] for name, found in values.items()}
    if not all(known.values()):
        return None
    return {
        "steps": len(known["mean"]),
        "abs_diff_mean": fmean(known["mean"]),
        "abs_diff_median_step": median(known["mean"]),
        "abs_diff_max": max(known["max"]),
        "std_mean": fmean(known["std"]),
        "correlation_min": min(known["r"]),
        "correlation_mean": fmean(known["r"]),
    }


def as_data(audit: RunAudit, run_dir: Path) -> dict[str, Any]:
    """The audit as JSON (`swe-plugin audit --json`): counts, distributions and every violation."""
    return {
        "ok": audit.ok,
        "rollouts": {
            "recorded": audit.n_rollouts,
            "audited": audit.n_audited,
            "without_tokens": audit.n_without_tokens,
            "reopened": audit.n_reopened,
            "segments": audit.n_segments,
            "journals_without_rollout": audit.n_journals_without_rollout,
        },
        "tokens": dict(sorted(audit.tokens.items())),
        "calls": dict(sorted(audit.calls.items())),
        "rows": {
            "rows": len(audit.row_tokens),
            "trainable_tokens": audit.n_trainable,
            "ending_on_mask_0": audit.n_rows_ending_on_mask_0,
            "tokens": _spread(audit.row_tokens),
            "trainable": _spread(audit.row_trainable),
            "trainable_fraction": _spread(
                [part / whole for part, whole in zip(audit.row_trainable, audit.row_tokens, strict=True)]
            ),
        },
        "weight_versions": {str(key): count for key, count in sorted(audit.versions.items())},
        "versions_behind_step": {str(key): count for key, count in sorted(audit.lags.items())},
        "sampler_and_trainer": agreement(run_dir),
        "violations": [{"rollout": f.rollout, **asdict(f.violation)} for f in audit.findings],
    }


def print_audit(audit: RunAudit, run_dir: Path, console: Console) -> None:
    """Print a table, the first violations, and the verdict."""
    data = as_data(audit, run_dir)
    rollouts, rows, calls = data["rollouts"], data["rows"], data["calls"]
    table = Table(show_header=False)
    table.add_row(
        "rollouts audited", f"{audit.n_audited} of {audit.n_rollouts} ({audit.n_without_tokens} without tokens)"
    )
    left = rollouts["journals_without_rollout"]
    table.add_row("journals of rollouts that did not end", "not counted (sample)" if left is None else str(left))
    table.add_row("calls of the inference server", ", ".join(f"{n} {kind}" for kind, n in calls.items() if n) or "0")
    table.add_row("rollouts of more than one segment", f"{audit.n_reopened} ({audit.n_segments} segments in all)")
    table.add_row("ids", ", ".join(f"{n} {kind}" for kind, n in data["tokens"].items()))
    table.add_row("rows", f"{rows['rows']}, {rows['ending_on_mask_0']} of them end on mask 0")
    table.add_row("ids per row", _in_words(rows["tokens"]))
    table.add_row("trainable ids per row", _in_words(rows["trainable"]))
    table.add_row("trainable part of a row", _in_words(rows["trainable_fraction"]))
    table.add_row("weight versions behind the step", _shares(audit.lags))
    table.add_row("sampler against trainer", _agreement_in_words(data["sampler_and_trainer"]))
    console.print(table)
    for kind, count in Counter(f.violation.kind for f in audit.findings).most_common():
        console.print(f"[red]{count} x {kind}[/red]")
    for finding in audit.findings[:_SHOWN]:
        violation = finding.violation
        where = f" segment {violation.segment} id {violation.start}" if violation.segment >= 0 else ""
        console.print(f"  {escape(finding.rollout)}{where}: {violation.kind}: {escape(violation.detail)}")
    if len(audit.findings) > _SHOWN:
        console.print(f"  ... and {len(audit.findings) - _SHOWN} more (--json has them all)")
    console.print(_verdict(audit))


def _verdict(audit: RunAudit) -> str:
    if audit.findings:
        return f"[red]{len(audit.findings)} violations[/red]"
    what = f"each of {audit.n_trainable} trainable ids was sampled, in its context, by the weights it names"
    return f"[green]proved[/green]: {what}"


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    return {"min": min(values), "median": median(values), "mean": fmean(values), "max": max(values)}


def _in_words(spread: dict[str, float] | None) -> str:
    return "-" if spread is None else ", ".join(f"{name} {value:.4g}" for name, value in spread.items())


def _shares(counts: Counter[int]) -> str:
    total = sum(counts.values())
    return ", ".join(f"{key}: {count / total:.1%}" for key, count in sorted(counts.items())) or "-"


def _agreement_in_words(found: dict[str, float] | None) -> str:
    if found is None:
        return _NOT_RECORDED
    return (
        f"|p - q| mean {found['abs_diff_mean']:.2g}, largest {found['abs_diff_max']:.2g}; correlation "
        f"{found['correlation_mean']:.6f}, worst step {found['correlation_min']:.6f} ({found['steps']:g} steps; "
        "verl keeps it per step, not per token)"
    )
