"""Task files: JSON lines and parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from swe_plugin.data.rows import RowError, task_from_row
from swe_plugin.errors import ConfigError
from swe_plugin.types import Task

__all__ = ["SUFFIXES", "read_rows", "read_tasks"]

SUFFIXES = (".jsonl", ".parquet")


def read_tasks(path: Path, key: str) -> Iterator[Task]:
    """The tasks of one file, in its order; each row is read when it is asked for.

    Args:
        path: ``.jsonl`` (one object a line, blank lines are skipped) or ``.parquet``; see `rows.task_from_row`.
        key: setting that names the file, for the error.

    Raises:
        ConfigError: no such file, another format, or a row that is no task: says which row (counted from 1; the line
            of a ``.jsonl``) and which column. Two rows of one ``instance_id`` are an error too.
    """
    seen: dict[str, int] = {}
    for number, row in read_rows(path, key):
        try:
            task = task_from_row(row)
        except RowError as error:
            raise ConfigError(key, str(path), f"row {number}, {error}") from error
        if (first := seen.setdefault(task.instance_id, number)) != number:
            raise ConfigError(key, str(path), f"row {number}, column instance_id: {task.instance_id!r} is row {first}")
        yield task


def read_rows(path: Path, key: str) -> Iterator[tuple[int, object]]:
    """The rows of one file as they are, numbered from 1, each read when it is asked for: memory stays flat.

    Args:
        path, key: as for `read_tasks`.

    Raises:
        ConfigError: no such file, another format, no rows, or a line that is no JSON.
    """
    if path.suffix not in SUFFIXES:
        raise ConfigError(key, str(path), f"must end in {' or '.join(SUFFIXES)}")
    number = 0
    try:
        for number, row in _lines(path) if path.suffix == ".jsonl" else _parquet(path):
            try:
                yield number, json.loads(row) if isinstance(row, str) else row
            except json.JSONDecodeError as error:
                raise ConfigError(key, str(path), f"row {number}: no JSON: {error}") from error
    except OSError as error:
        raise ConfigError(key, str(path), f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(key, str(path), f"is no UTF-8: {error}") from error
    if not number:
        raise ConfigError(key, str(path), "has no rows")


def _lines(path: Path) -> Iterator[tuple[int, object]]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, line


def _parquet(path: Path) -> Iterator[tuple[int, object]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise OSError("parquet needs pyarrow: pip install pyarrow, or use .jsonl") from error
    with path.open("rb") as file:
        try:
            # by default the whole file would be read ahead and kept
            batches = pq.ParquetFile(file, pre_buffer=False).iter_batches(batch_size=64)
            rows = (row for batch in batches for row in batch.to_pylist(maps_as_pydicts="strict"))
            yield from enumerate(rows, start=1)
        except pa.ArrowInvalid as error:
            raise OSError(f"no parquet: {error}") from error
