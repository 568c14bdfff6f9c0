"""The replay buffer that verl samples from, with a brake, a stable order and our metrics.

Installed through verl's own key ``trainer.v1.sampler.custom_sampler``; `make_replay_buffer` picks the variant
for the trainer mode. verl gives a custom sampler neither the DAPO nor the refill settings, so the recipe
passes them through ``trainer.v1.sampler.sampler_kwargs`` (`SamplerSettings`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import transfer_queue as tq
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync

from swe_plugin.errors import TooManyFailures
from swe_plugin.rollout.breaker import CircuitBreaker
from swe_plugin.types import StopReason
from swe_plugin.verl_adapter import events, watchdog
from swe_plugin.verl_adapter.ledger import Group, GroupLedger
from swe_plugin.verl_adapter.metrics import row_metrics, step_metrics
from swe_plugin.verl_adapter.sampler_settings import SamplerSettings

__all__ = ["SweReplayBuffer", "SweReplayBufferAsync", "make_replay_buffer"]


class _SweSampling:
    """What both variants add to verl's buffer. Every poll of verl's loops passes through
    `_sync_metadata_from_transfer_queue`, so the watchdog, the account of groups and the breaker live there."""

    def __init__(self, *, trainer_mode: str, sampler_kwargs: Mapping[str, Any], **kwargs: Any) -> None:
        self.settings = SamplerSettings.parse(sampler_kwargs)
        self.breaker = CircuitBreaker(self.settings.breaker_failures)
        self._ledgers: dict[str, GroupLedger] = defaultdict(GroupLedger)
        self._ended: dict[str, list[Group]] = defaultdict(list)
        super().__init__(  # type: ignore[call-arg]
            trainer_mode=trainer_mode,
            sampler_kwargs=sampler_kwargs,
            poll_interval=self.settings.poll_interval_s,
            **self.settings.buffer_arguments(trainer_mode),
            **kwargs,
        )

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[KVBatchMeta, dict[str, Any]]:
        """One batch, its rows sorted, and the step's metrics (verl discards them in validation).

        Raises:
            TooManyFailures: the breaker opened, or no group of the batch has a row.
        """
        batch, metrics = super().sample(global_steps, partition_id, batch_size)  # type: ignore[misc]
        events.note("sampled", partition_id, global_steps)
        ended = self._ended.pop(partition_id, [])
        if partition_id == "train":
            metrics |= step_metrics(ended, group_size=self.settings.rollout_n)
            metrics |= row_metrics(len(batch.keys), rows_per_update=self.settings.rows_per_update)
        return batch, metrics

    def _sync_metadata_from_transfer_queue(self) -> None:
        watchdog.check_all()
        super()._sync_metadata_from_transfer_queue()  # type: ignore[misc]
        for partition_id, tags in (tq.kv_list() or {}).items():
            for member in self._ledgers[partition_id].observe(tags):
                if member.stop != StopReason.CANCELLED:  # says nothing about the environments or the model
                    self.breaker.record(member.cause)
        self.breaker.check()

    def _select_prompt_uids(
        self, partition_id: str, sampleable_keys: set[str], batch_size: int
    ) -> tuple[list[str], dict[str, dict[str, Any]], dict[str, int]]:
        ledger = self._ledgers[partition_id]
        ordered = dict.fromkeys(sorted(sampleable_keys, key=lambda uid: (ledger.index(uid), uid)))
        uids, rows, steps = super()._select_prompt_uids(partition_id, ordered, batch_size)  # type: ignore[misc]
        if partition_id == "train" and not {_uid(key) for key in rows} & set(uids):
            raise TooManyFailures(f"no group of this batch has a row to train on: {self.breaker.summary()}")
        return uids, rows, steps

    def _materialize_batch(
        self, partition_id: str, selected_prompt_uids: list[str], partition_snapshot: dict[str, dict[str, Any]]
    ) -> KVBatchMeta:
        ledger = self._ledgers[partition_id]
        place = {uid: (ledger.index(uid), i) for i, uid in enumerate(selected_prompt_uids)}
        left_out = self._left_out(partition_id, selected_prompt_uids, partition_snapshot)
        chosen = [key for key in partition_snapshot if _uid(key) in place and key not in left_out]
        ordered = {key: partition_snapshot[key] for key in sorted(chosen, key=lambda k: _order(k, place))}
        self._ended[partition_id] += ledger.take(selected_prompt_uids)
        return super()._materialize_batch(partition_id, selected_prompt_uids, ordered)  # type: ignore[misc]

    def _left_out(self, partition_id: str, uids: Sequence[str], rows: Mapping[str, Any]) -> set[str]:
        """Rows that ``swe.failure.zero_advantage=drop`` leaves out, now gone from the queue. A batch of nothing else
        stays whole: its update is no step, and verl has none without rows."""
        if partition_id != "train" or self.settings.zero_advantage != "drop":
            return set()
        flat = self._ledgers[partition_id].zero_advantage(uids)
        left_out = {key for key in rows if _uid(key) in flat}
        if not left_out or left_out >= {key for key in rows if _uid(key) in set(uids)}:
            return set()
        tq.kv_clear(keys=sorted(left_out), partition_id=partition_id)
        return left_out

    def _clear_groups(self, partition_id: str, uids: set[str]) -> None:
        self._ended[partition_id] += self._ledgers[partition_id].take(uids)
        super()._clear_groups(partition_id, uids)  # type: ignore[misc]


class SweReplayBuffer(_SweSampling, ReplayBuffer):  # type: ignore[misc]
    """For trainer mode ``sync``."""


class SweReplayBufferAsync(_SweSampling, ReplayBufferAsync):  # type: ignore[misc]
    """For ``colocate_async`` and ``separate_async``."""


def make_replay_buffer(*, trainer_mode: str, **kwargs: Any) -> SweReplayBuffer | SweReplayBufferAsync:
    """What verl calls as if it were the class of the custom sampler."""
    variant: Callable[..., SweReplayBuffer | SweReplayBufferAsync]
    variant = SweReplayBuffer if trainer_mode == "sync" else SweReplayBufferAsync
    return variant(trainer_mode=trainer_mode, **kwargs)


def _uid(key: str) -> str:
    """The group of a row, whose key is ``{uid}_{session}_{segment}``; uids are UUIDs, which hold no underscore."""
    return key.partition("_")[0]


def _order(key: str, place: Mapping[str, tuple[int, int]]) -> tuple[int, int, int, int]:
    uid, session, segment = key.rsplit("_", 2)
    return (*place[uid], int(session), int(segment))
