"""`SweDataset`: verl's dataset, whose rows say where they stand, so that the next ones can be foreseen."""

from __future__ import annotations

from typing import Any, ClassVar

from verl.utils.dataset.rl_dataset import RLHFDataset

__all__ = ["SweDataset"]


class SweDataset(RLHFDataset):  # type: ignore[misc]
    """Rows as verl reads them; `index` is the row's place in the filtered dataset.

    Attributes:
        training: the dataset that this process trains on, for the agent-loop manager, which lives beside the trainer
            and is given no dataset.
    """

    training: ClassVar[SweDataset | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if SweDataset.training is None:  # verl makes the dataset of training first
            SweDataset.training = self

    def __getitem__(self, item: int) -> dict[str, Any]:
        row: dict[str, Any] = super().__getitem__(item)
        return row | {"index": int(item)}
