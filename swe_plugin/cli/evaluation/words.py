"""`Words`: what was typed after `swe-plugin eval`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from swe_plugin.errors import ConfigError

__all__ = ["Words"]


@dataclass(frozen=True, slots=True)
class Words:
    """The options of the command, in its words.

    Attributes:
        settings: ``swe.key=value``.
        policy: who answers; empty with `predictions`.
        predictions: files that are graded instead, one per sample.
        script: of the scripted policy.
        dataset, split, only, keep, limit: which tasks.
        samples: attempts at each task.
        ks: of pass@k; empty: 1, and `samples`.
        seed: of sampling.
        concurrency: samples at once.
        out: directory of the evaluation; None: a new one below ``swe.output.dir``.
    """

    settings: Sequence[str]
    policy: str
    predictions: Sequence[Path]
    script: Path | None
    dataset: str
    split: str
    only: Sequence[str]
    keep: Path | None
    limit: int
    samples: int
    ks: Sequence[int]
    seed: int
    concurrency: int
    out: Path | None

    def __post_init__(self) -> None:
        """Raise `ConfigError` for words that contradict each other."""
        if bool(self.policy) == bool(self.predictions):
            raise ConfigError("--policy", self.policy, "give either --policy or --predictions")
        if self.predictions and self.samples > 1:
            raise ConfigError("--samples", self.samples, "give --predictions once per sample instead")
        if self.predictions and self.script:
            raise ConfigError("--script", str(self.script), "goes with --policy scripted, not --predictions")
        for k in self.ks:
            if not 1 <= k <= self.attempts:
                raise ConfigError("--k", k, f"must be from 1 to the number of samples, {self.attempts}")

    @property
    def attempts(self) -> int:
        """Attempts at each task."""
        return len(self.predictions) or self.samples

    @property
    def wanted_ks(self) -> list[int]:
        """The k of pass@k, rising."""
        return sorted({*self.ks} or {1, self.attempts})
