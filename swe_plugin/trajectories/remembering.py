"""`RememberingStore`: knows where it wrote what."""

from __future__ import annotations

from pathlib import Path

from swe_plugin.trajectories.store import TrajectoryStore
from swe_plugin.types import RolloutResult

__all__ = ["RememberingStore"]


class RememberingStore(TrajectoryStore):
    """A store of one process's rollouts.

    Attributes:
        saved: (instance id, session) -> directory of its last record; what could not be written is not in it.
    """

    def __init__(self, run_dir: Path) -> None:
        super().__init__(run_dir)
        self.saved: dict[tuple[str, int], Path] = {}

    async def save(self, result: RolloutResult, *, step: int, phase: str) -> Path:
        """See `TrajectoryStore.save`."""
        path = await super().save(result, step=step, phase=phase)
        self.saved[result.task.instance_id, result.session] = path
        return path
