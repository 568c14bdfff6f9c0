"""Where the journal of a rollout lies: beside its record, because it is written while the rollout still runs and
the record appears only when it is complete."""

from __future__ import annotations

from pathlib import Path

from swe_plugin.trajectories.names import safe_name

__all__ = ["JOURNALS", "attempt_id", "journal_path", "request_of"]

JOURNALS = "journals"
"""Directory of the journals of one step and phase, beside its rollouts."""


def journal_path(run_dir: Path, step: int, phase: str, instance_id: str, session: int, request_id: str) -> Path:
    """File of all calls of one rollout.

    Args:
        run_dir: the run's directory.
        step: trainer step.
        phase: ``train`` or ``val``.
        instance_id: of the task.
        session: index in the group.
        request_id: of the rollout, all its attempts together.
    """
    name = f"{safe_name(instance_id)}@{session}-{safe_name(request_id[:8])}.jsonl"
    return run_dir / f"step_{step}" / phase / JOURNALS / name


def attempt_id(request_id: str, attempt: int) -> str:
    """By which the journal tells the attempts of one rollout apart."""
    return f"{request_id}_{attempt}"


def request_of(attempt: str) -> str:
    """Inverse of `attempt_id`."""
    return attempt.rpartition("_")[0]
