"""`Settings`: what every family of checks reads."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from omegaconf import DictConfig, OmegaConf

from swe_plugin.config import SweConfig, load_config
from swe_plugin.preflight.finding import Finding

__all__ = ["ACTOR", "ROLLOUT", "Settings"]

ROLLOUT = "actor_rollout_ref.rollout"
ACTOR = "actor_rollout_ref.actor"


@dataclass(frozen=True, slots=True)
class Settings:
    """A composed configuration: verl's keys as they are, ours checked against the schema."""

    config: DictConfig
    swe: SweConfig

    @classmethod
    def of(cls, config: DictConfig) -> Self:
        """Read a configuration.

        Raises:
            ConfigError: the section ``swe`` is wrong.
        """
        return cls(config, load_config(config.get("swe")))

    def get(self, key: str) -> Any:
        """Value of a dotted key, None if there is none; ``swe.*`` keys that were left out have their defaults."""
        if key.startswith("swe."):
            value: Any = self.swe
            for name in key.split(".")[1:]:
                value = getattr(value, name)
            return value
        return OmegaConf.select(self.config, key)

    def rule(self, key: str, holds: bool, fix: str, detail: str = "") -> Finding:
        """A finding about one key."""
        return Finding(key, holds, detail, key, self.get(key), "" if holds else fix)

    @property
    def output_dir(self) -> Path:
        """Directory of all runs."""
        return Path(self.swe.output.dir).expanduser().absolute()

    @property
    def rollouts_at_once(self) -> int:
        """Agent environments of one step that run at once on one node."""
        nodes = max(int(self.get("trainer.nnodes") or 1), 1)
        batch = int(self.get("data.train_batch_size") or 1) * int(self.get(f"{ROLLOUT}.n") or 1)
        return min(self.swe.slots.running, -(-batch // nodes))

    @property
    def joins_cluster(self) -> bool:
        """Whether Ray is somebody's running cluster, whose machines this process does not see."""
        return bool(self.get("ray_kwargs.ray_init.address") or os.environ.get("RAY_ADDRESS"))
