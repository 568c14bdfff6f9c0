"""`LookAhead`: from the batch that is dispatched to the rollouts that will be asked for after it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from verl.trainer.ppo.utils import create_rl_sampler

from swe_plugin.verl_adapter.overlap.order import PromptOrder

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from swe_plugin.verl_adapter.dataset import SweDataset

__all__ = ["LookAhead", "Wanted"]

logger = logging.getLogger(__name__)

Wanted = tuple[str, int]
"""A task as JSON and the number of its rollouts."""


class LookAhead:
    """Foresees the next batch of training prompts.

    Args:
        config: verl's whole configuration.
        dataset: what is trained on.
    """

    def __init__(self, config: DictConfig, dataset: SweDataset) -> None:
        data = config.data
        fetch = int(data.get("gen_batch_size") or data.train_batch_size)
        self._dataset, self._rollouts = dataset, int(config.actor_rollout_ref.rollout.n)
        self._batch = int(data.train_batch_size)
        steps_per_epoch = max(len(dataset) // self._batch, 1)
        total = config.trainer.total_training_steps
        self._steps = int(total if total is not None else steps_per_epoch * config.trainer.total_epochs)
        epochs = min(int(config.trainer.total_epochs), self._steps // steps_per_epoch + 1)
        self._order = PromptOrder(
            create_rl_sampler(data, dataset), fetch, epochs + 1, unused=int(data.dataloader_num_workers > 0)
        )

    def first(self) -> list[int]:
        """Rows of the first batch of a run that starts from the beginning."""
        return self._order.next(self._batch)

    def after(self, rows: Sequence[int], step: int) -> list[int] | None:
        """What will be dispatched after a batch.

        Args:
            rows: of the dispatched batch.
            step: trainer step that it was dispatched for.

        Returns:
            Rows of the next batch, in order, none after the last step; None where the batch stands nowhere in the
            order, so that nothing can be foreseen.
        """
        if not self._order.follow(rows):
            logger.warning("step %d: rows %s come in no order that is known; nothing is started ahead", step, rows[:4])
            return None
        return [] if step >= self._steps else self._order.next(self._batch)

    def wanted(self, row: int) -> Wanted:
        """The task of a row and how many rollouts it gets."""
        values: dict[str, Any] = self._dataset.dataframe[row]
        return values["task"], int(values.get("__rollout_n__") or self._rollouts)
