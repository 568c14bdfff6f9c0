"""`CircuitBreaker`: a run whose rollouts all fail stops with the reason instead of eating the dataset."""

from __future__ import annotations

from collections import Counter, deque

from swe_plugin.errors import TooManyFailures

__all__ = ["CircuitBreaker"]

_CAUSES_SHOWN = 3


class CircuitBreaker:
    """Opens after `limit` rollouts in a row that have no row to train on.

    Rollouts are counted over all groups and workers in the order in which their ends were seen. verl itself
    has no such brake: with a dead environment backend it replaces failed groups until the dataset is used up.

    Args:
        limit: failures in a row that open it.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._causes: deque[str] = deque(maxlen=limit)

    @property
    def failures_in_a_row(self) -> int:
        """Failed rollouts since the last survivor (not counted beyond `limit`)."""
        return len(self._causes)

    def record(self, cause: str) -> None:
        """Count one rollout; an empty cause is a survivor and closes the series."""
        if cause:
            self._causes.append(cause)
        else:
            self._causes.clear()

    def check(self) -> None:
        """Stop the run if the breaker is open.

        Raises:
            TooManyFailures: `limit` rollouts failed in a row; names the most frequent causes.
        """
        if self.failures_in_a_row >= self.limit:
            raise TooManyFailures(
                f"{self.failures_in_a_row} rollouts failed in a row (swe.failure.breaker_failures={self.limit}): "
                f"{self.summary()}"
            )

    def summary(self) -> str:
        """The most frequent causes of the current series, with their counts."""
        common = Counter(self._causes).most_common(_CAUSES_SHOWN)
        return "; ".join(f"{count} x {cause}" for cause, count in common) or "no cause was recorded"
