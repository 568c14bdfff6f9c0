"""Demo tasks as the parquet files that verl's dataset reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from swe_plugin.data.training_file import TrainingFile
from swe_plugin.types import Task
from swe_plugin.verl_adapter.demo.episodes import first_messages

__all__ = ["write_rows"]


def write_rows(tasks: Sequence[Task], path: Path) -> None:
    """One row per task, in this order."""
    with TrainingFile(path, "swe_demo") as file:
        for task in tasks:
            file.add(task, first_messages(task))
