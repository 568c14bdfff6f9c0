"""`PromptOrder`: which rows verl's dataloader will ask for next, found out without asking it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["PromptOrder"]


class PromptOrder:
    """Follows the batches that verl dispatches through a second sampler of the same seed.

    The dataloader itself is never read ahead: its state is part of verl's checkpoints, and a batch that was fetched
    early would be lost by a resumed run. Where the order has been left (resuming in mid-epoch, a sampler that was
    restored) it is found again by content, from the present place on.

    Args:
        sampler: what verl's `create_rl_sampler` makes; each iteration is one epoch.
        unused: iterations of the sampler that the dataloader throws away before each epoch: torchdata's
            `StatefulDataLoader` draws one permutation more per epoch if it has worker processes.
        fetch: rows per fetch of the dataloader, which drops the rest of an epoch (``drop_last``).
        max_epochs: how far a batch is looked for.
    """

    def __init__(self, sampler: Iterable[int], fetch: int, max_epochs: int, *, unused: int = 0) -> None:
        self._sampler, self._fetch, self._max_epochs, self._unused = sampler, fetch, max_epochs, unused
        self._rows: list[int] = []
        self._place = 0

    def follow(self, batch: Sequence[int]) -> bool:
        """Take note of a dispatched batch.

        Args:
            batch: rows of the dataset.

        Returns:
            Whether the batch was found, so that `next` means something.
        """
        size = len(batch)
        for _ in range(self._max_epochs + 1):
            found = self._find(list(batch))
            if found is not None:
                self._place = found + size
                return True
            del self._rows[: max(len(self._rows) - size + 1, 0)]  # the batch may begin here and end in the next epoch
            self._place = 0
            if not self._add_epoch():
                return False
        return False

    def next(self, count: int) -> list[int]:
        """The next `count` rows."""
        while len(self._rows) < self._place + count:
            if not self._add_epoch():
                break
        del self._rows[: self._place]
        self._place = 0
        return self._rows[:count]

    def _find(self, batch: list[int]) -> int | None:
        """The first place from the present one on where `batch` stands."""
        start, last = self._place, len(self._rows) - len(batch)
        while start <= last:
            try:
                start = self._rows.index(batch[0], start, last + 1)
            except ValueError:
                return None
            if self._rows[start : start + len(batch)] == batch:
                return start
            start += 1
        return None

    def _add_epoch(self) -> bool:
        for _ in range(self._unused):
            iter(self._sampler)
        rows = list(self._sampler)
        rows = rows[: len(rows) - len(rows) % self._fetch]
        self._rows += rows
        return bool(rows)
