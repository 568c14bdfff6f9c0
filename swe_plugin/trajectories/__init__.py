"""What every rollout leaves on disk: one directory with its conversation, tokens, commands, patch and grade."""

from __future__ import annotations

from swe_plugin.trajectories.store import Trajectory, TrajectoryStore, find_trajectories, load_trajectory

__all__ = ["Trajectory", "TrajectoryStore", "find_trajectories", "load_trajectory"]
