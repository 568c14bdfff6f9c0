"""Which tasks of a dataset are evaluated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from swe_plugin.data.prepare.selection import read_keep_list
from swe_plugin.errors import ConfigError
from swe_plugin.types import Task

__all__ = ["select"]


def select(
    tasks: Iterable[Task], dataset: str, *, split: str, only: Sequence[str], keep: Path | None, limit: int
) -> list[Task]:
    """The tasks that pass every filter, in the dataset's order.

    Args:
        tasks: of the dataset, read as far as needed.
        dataset: its name, for errors.
        split: value of the task's ``metadata["split"]``; empty: any.
        only: globs, one of which must match the instance id; none: any.
        keep: file of instance ids, or None.
        limit: tasks at most; 0: all.

    Raises:
        ConfigError: not one is left, the file cannot be read, or a row is no task.
    """
    kept = read_keep_list(keep) if keep else None

    def wanted() -> Iterator[Task]:
        for task in tasks:
            name = task.instance_id
            if (
                (not split or task.metadata.get("split") == split)
                and (not only or any(fnmatchcase(name, glob) for glob in only))
                and (kept is None or name in kept)
            ):
                yield task

    found = list(islice(wanted(), limit or None))
    if not found:
        raise ConfigError("--dataset", dataset, "not one task is left: look at --split, --only and --keep")
    return found
