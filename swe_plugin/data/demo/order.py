"""The order in which a run consumes demo tasks."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

from swe_plugin.types import Task

__all__ = ["balanced_order"]


def balanced_order(tasks: Sequence[Task], seed: int) -> list[Task]:
    """A permutation in which each run of k tasks (k: number of behaviours) has every behaviour once.

    Batches whose size is a multiple of k are then exactly balanced: with unbalanced batches the policy
    drifts to whatever behaviour happens to be frequent. Tasks beyond the rarest behaviour's count go last.
    """
    rng = random.Random(f"order/{seed}")  # noqa: S311 - not a secret
    queues: dict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        queues[task.metadata["behaviour"]].append(task)
    for name in sorted(queues):
        rng.shuffle(queues[name])
    ordered: list[Task] = []
    while any(queues.values()):
        block = [queue.pop() for _, queue in sorted(queues.items()) if queue]
        rng.shuffle(block)
        ordered += block
    return ordered
