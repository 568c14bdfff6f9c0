"""`WarmPlan`: which worker holds the environments of which row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

__all__ = ["WarmPlan"]


class WarmPlan:
    """Gives rows that will be dispatched to workers, and finds them there again.

    A whole batch is divided as verl divides it, into contiguous chunks; single rows go to the worker that holds the
    fewest.

    Args:
        workers: agent-loop workers, by position.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._held: dict[int, int] = {}

    def __len__(self) -> int:
        """Rows planned and not yet dispatched."""
        return len(self._held)

    def extend(self, rows: Sequence[int]) -> dict[int, list[int]]:
        """Plan rows ahead.

        Args:
            rows: of the dataset, in the order in which they will be dispatched; those planned before are left out.

        Returns:
            Position of a worker -> the rows it should start environments for, in order.
        """
        new = [row for row in dict.fromkeys(rows) if row not in self._held]
        size = -(-len(new) // self._workers)
        load = Counter(self._held.values())
        given: dict[int, list[int]] = {}
        for number, row in enumerate(new):
            whole = len(new) >= self._workers
            position = number // size if whole else min(range(self._workers), key=lambda p: load[p])
            load[position] += 1
            self._held[row] = position
            given.setdefault(position, []).append(row)
        return given

    def take(self, rows: Sequence[int]) -> list[tuple[int, slice]] | None:
        """Where a dispatched batch belongs.

        Returns:
            Pieces of the batch and the worker of each, in order; None unless all of its rows were planned.
        """
        if not all(row in self._held for row in rows):
            for row in rows:
                self._held.pop(row, None)
            return None
        held = [self._held[row] for row in rows]
        for row in rows:
            self._held.pop(row, None)
        runs = [[*run] for _, run in groupby(range(len(rows)), key=lambda i: held[i])]
        return [(held[run[0]], slice(run[0], run[-1] + 1)) for run in runs]

    def clear(self) -> None:
        """Forget everything: the order was lost."""
        self._held.clear()
