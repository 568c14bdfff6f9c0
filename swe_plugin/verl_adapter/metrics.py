"""The ``swe/*`` metrics of a training step, from the records of its members.

Names matter: where one step makes several updates, verl combines their metrics by name. A name that contains
``max``, ``min`` or ``sum``/``total`` is combined so, every other one becomes a mean weighted by rows. So
fractions and means avoid these words (the stop reason ``max_turns`` is called ``turn_limit`` here), counts
end in ``total`` and extremes in ``max``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean

from swe_plugin.grading.honesty import Signal
from swe_plugin.types import StopReason
from swe_plugin.verl_adapter.ledger import Group
from swe_plugin.verl_adapter.members import Member

__all__ = ["row_metrics", "step_metrics", "stop_metric"]

_RENAMED = {StopReason.MAX_TURNS: "turn_limit"}

Metrics = dict[str, float]


def stop_metric(reason: StopReason) -> str:
    """Name of the metric that holds the fraction of rollouts which ended for `reason`."""
    return f"swe/stop/{_RENAMED.get(reason, str(reason))}"


def step_metrics(groups: Sequence[Group], *, group_size: int) -> Metrics:
    """Metrics over every rollout that ended since the last step, with or without a row.

    ``swe/stop/*`` sums to 1 over all rollouts; ``swe/resolved`` and ``swe/patch/empty`` are over graded ones;
    ``swe/failed`` is the fraction of rollouts without a row, ``swe/groups/dropped`` of groups without one.
    A statistic without observations is left out.

    Args:
        groups: that left verl's queue: sampled, dropped or evicted.
        group_size: rollouts per prompt that were asked for.
    """
    members = [member for group in groups for member in group.members]
    if not members:
        return {}
    return {
        **_outcomes(members),
        **_groups(groups, group_size),
        **_spread("swe/env/wait_s", (m.wait_s for m in members)),
        **_spread("swe/env/start_s", (m.start_s for m in members)),
        **_overlap(members),
        **_spread("swe/env/exec_s", (m.exec_s for m in members)),
        **_spread("swe/env/cpu_s", (m.cpu_s for m in members)),
        **_spread("swe/env/memory_mib", (m.memory_mib for m in members)),
        **_spread("swe/env/in_use", (m.in_use for m in members)),
        **_spread("swe/generate_s", (m.generate_s for m in members)),
        **_spread("swe/rollout_s", (m.total_s for m in members)),
        **_spread("swe/grade/s", (m.grade_s for m in members)),
        **_tokens([m for m in members if m.segments]),
    }


def row_metrics(rows: int, *, rows_per_update: int) -> Metrics:
    """How full the optimiser steps of one batch are.

    verl pads a batch to a whole number of updates. A padded row is empty and changes no gradient, but the
    update that holds it is smaller than configured.

    Args:
        rows: real rows of the batch.
        rows_per_update: ``ppo_mini_batch_size x rollout.n``.
    """
    updates = max(math.ceil(rows / rows_per_update), 1)
    padded = updates * rows_per_update
    return {
        "swe/rows/real_total": float(rows),
        "swe/rows/per_update": rows / updates,
        "swe/rows/padding": (padded - rows) / padded,
    }


def _outcomes(members: Sequence[Member]) -> Metrics:
    n = len(members)
    graded = [m for m in members if m.resolved is not None]
    metrics = {stop_metric(reason): sum(m.stop == reason for m in members) / n for reason in StopReason}
    metrics["swe/failed"] = sum(m.failed for m in members) / n
    metrics["swe/failed_total"] = float(sum(m.failed for m in members))
    metrics["swe/patch/apply_failed"] = fmean(m.apply_failed for m in members)
    metrics["swe/format_errors"] = fmean(m.format_errors for m in members)
    metrics["swe/env/retries"] = fmean(m.retries for m in members)
    metrics["swe/env/lost"] = fmean(m.lost for m in members)
    names = sorted({name for m in members for name in m.rewards})
    for name in names:
        metrics[f"swe/reward/{name}"] = fmean(m.rewards[name] for m in members if name in m.rewards)
    if graded:
        for signal in Signal:
            metrics[f"swe/flags/{signal}"] = fmean(signal in m.flags.split() for m in graded)
        metrics["swe/resolved"] = fmean(bool(m.resolved) for m in graded)
        metrics["swe/grade/cache_hit_rate"] = fmean(m.grade_cached for m in graded)
        metrics["swe/patch/empty"] = fmean(bool(m.empty_patch) for m in graded)
    return metrics


def _overlap(members: Sequence[Member]) -> Metrics:
    hidden = sum(m.hidden_s or 0.0 for m in members)
    whole = hidden + sum(m.start_s or 0.0 for m in members)
    return {"swe/overlap/hidden_ratio": hidden / whole} if whole else {}


def _groups(groups: Sequence[Group], group_size: int) -> Metrics:
    kept = [group for group in groups if not group.dropped]
    return {
        "swe/groups/seen_total": float(len(groups)),
        "swe/groups/dropped": 1.0 - len(kept) / len(groups),
        "swe/groups/dropped_total": float(len(groups) - len(kept)),
        "swe/groups/zero_advantage": sum(g.zero_advantage for g in kept) / len(groups),
        "swe/groups/short": sum(sum(not m.failed for m in g.members) < group_size for g in kept) / len(groups),
    }


def _tokens(members: Sequence[Member]) -> Metrics:
    if not members:
        return {}
    return {
        **_spread("swe/tokens/sampled", (m.sampled_tokens for m in members)),
        **_spread("swe/tokens/context", (m.context_tokens for m in members)),
        "swe/tokens/segments": fmean(m.segments for m in members),
        "swe/tokens/drift": fmean(m.segments > 1 for m in members),
    }


def _spread(name: str, values: Iterable[float | None]) -> Metrics:
    """Mean, 90th percentile (nearest rank) and maximum of the values that are there."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return {}
    return {
        f"{name}/mean": fmean(known),
        f"{name}/p90": float(known[math.ceil(0.9 * len(known)) - 1]),
        f"{name}/max": float(known[-1]),
    }
