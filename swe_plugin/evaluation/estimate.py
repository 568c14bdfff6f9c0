"""`Estimate`: a rate over tasks with its 95% interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

__all__ = ["METHOD", "Estimate", "Z", "estimate"]

Z = 1.959963984540054
"""97.5% quantile of the normal distribution: intervals are those of 95%."""
METHOD = (
    "mean over tasks; 95% Wilson score interval (Wilson 1927) at the effective sample size that the variance "
    "between tasks gives (Korn & Graubard 1998): tasks are the clusters, samples of one task are not independent"
)
"""How the interval is computed, for reports."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A rate.

    Attributes:
        value: the mean over tasks.
        low, high: 95% interval.
        tasks: tasks that the mean is over.
        samples: attempts behind them.
    """

    value: float
    low: float
    high: float
    tasks: int
    samples: int


def estimate(values: Sequence[float], samples: int, k: int = 1) -> Estimate | None:
    """The mean of per-task rates; None without a task.

    Tasks are a sample of the tasks that one might have asked, and the attempts at one task share its difficulty. So the
    variance of the mean is that between tasks (``s^2 / m``), whatever the number of attempts. The interval is
    Wilson's at the effective sample size ``p (1 - p) / (s^2 / m)``, which unlike ``p +- z s / sqrt(m)`` stays within
    [0, 1] and does not shrink to a point where every task passes or none. There the size is the number of tasks.

    Args:
        values: per task, a number from 0 to 1.
        samples: attempts behind all of them.
        k: attempts that one draw consists of; the effective size is at most the number of draws.
    """
    m = len(values)
    if not m:
        return None
    mean = sum(values) / m
    size = float(m)
    if m > 1 and 0 < mean < 1:
        variance = sum((value - mean) ** 2 for value in values) / (m - 1) / m
        size = min(mean * (1 - mean) / variance, samples / k) if variance else size
    low, high = _wilson(mean, size)
    return Estimate(mean, low, high, m, samples)


def _wilson(rate: float, size: float) -> tuple[float, float]:
    centre = (rate + Z * Z / (2 * size)) / (1 + Z * Z / size)
    half = Z / (1 + Z * Z / size) * sqrt(rate * (1 - rate) / size + Z * Z / (4 * size * size))
    # at the ends rounding could leave the rate itself outside
    return min(rate, max(0.0, centre - half)), max(rate, min(1.0, centre + half))
