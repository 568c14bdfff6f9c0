"""Our own records: the directory of a rollout, or of a run with all of its rollouts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from swe_plugin.trajectories.formats.conversation import Conversation
from swe_plugin.trajectories.store import Trajectory, find_trajectories, load_trajectory

__all__ = ["read_records"]


def read_records(path: Path) -> Iterator[Conversation]:
    """All complete rollouts of a run, or the one at `path`."""
    directories = [path] if (path / "trajectory.json").exists() else find_trajectories(path)
    for directory in directories:
        yield _conversation(load_trajectory(directory))


def _conversation(recorded: Trajectory) -> Conversation:
    result = recorded.result
    return Conversation(
        name=f"{result.task.instance_id}@{result.session}",
        messages=list(result.messages),
        segments=result.segments,
        reward=result.reward,
        patch=result.patch,
        stop=str(result.stop),
        actions=[turn.actions for turn in result.turns],
    )
