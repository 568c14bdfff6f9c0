"""`SamplerSettings`: what the recipe hands to our replay buffer through ``sampler_kwargs``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from swe_plugin.errors import ConfigError

__all__ = ["SamplerSettings"]

_KEY = "trainer.v1.sampler.sampler_kwargs"


@dataclass(frozen=True, slots=True)
class SamplerSettings:
    """Interpolations of verl's and our own keys; ``recipes/plugin/swe.yaml`` holds them all.

    Attributes:
        breaker_failures: ``${swe.failure.breaker_failures}``.
        zero_advantage: ``${swe.failure.zero_advantage}``.
        rollout_n: ``${actor_rollout_ref.rollout.n}``.
        mini_batch_size: ``${actor_rollout_ref.actor.ppo_mini_batch_size}``, in prompts.
        train_batch_size: ``${data.train_batch_size}``, in prompts.
        gen_batch_size: ``${data.gen_batch_size}``; verl sets it to 1 where groups are replaced.
        poll_interval_s: pause between two looks at the queue; verl's own is 2 s.
        filter_groups: ``${algorithm.filter_groups}`` (DAPO).
        sync_refill_failed_groups: ``${trainer.v1.sampler.sync_refill_failed_groups}``.
    """

    breaker_failures: int
    rollout_n: int
    mini_batch_size: int
    train_batch_size: int
    gen_batch_size: int | None = None
    zero_advantage: str = "keep"
    poll_interval_s: float = 0.1
    filter_groups: Mapping[str, Any] | None = None
    sync_refill_failed_groups: bool = False

    @classmethod
    def parse(cls, kwargs: Mapping[str, Any]) -> SamplerSettings:
        """Read ``sampler_kwargs``.

        Raises:
            ConfigError: a key is missing or unknown.
        """
        known = {field.name: field for field in dataclasses.fields(cls)}
        for key in kwargs:
            if key not in known:
                raise ConfigError(f"{_KEY}.{key}", kwargs[key], f"unknown; known are {', '.join(known)}")
        for name, field in known.items():
            if name not in kwargs and field.default is dataclasses.MISSING:
                raise ConfigError(f"{_KEY}.{name}", None, "missing; start from a recipe: +plugin=swe")
        return cls(**kwargs)

    @property
    def rows_per_update(self) -> int:
        """Rows of one optimiser step."""
        return self.mini_batch_size * self.rollout_n

    @property
    def filter_groups_metric(self) -> str | None:
        """DAPO's metric, or None when group filtering is off.

        Raises:
            ConfigError: it is on without a metric.
        """
        if not self.filter_groups or not self.filter_groups.get("enable"):
            return None
        metric = self.filter_groups.get("metric")
        if not metric:
            raise ConfigError("algorithm.filter_groups.metric", metric, "name a metric, e.g. reward or acc")
        return str(metric)

    def buffer_arguments(self, trainer_mode: str) -> dict[str, Any]:
        """The arguments that verl gives only to its own buffers, computed as it does."""
        arguments: dict[str, Any] = {
            "filter_groups_metric": self.filter_groups_metric,
            "sync_refill_failed_groups": self.sync_refill_failed_groups,
        }
        if trainer_mode == "sync":
            exact = self.filter_groups_metric is not None or self.sync_refill_failed_groups
            arguments |= {
                "train_batch_size": self.train_batch_size,
                "gen_batch_size": 1 if exact else self.gen_batch_size or self.train_batch_size,
                "max_inflight_gen_batches": (self.filter_groups or {}).get("max_inflight_gen_batches", 1),
            }
        return arguments
