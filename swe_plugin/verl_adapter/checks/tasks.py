"""Data files: there, with the columns and the tasks that rollouts need, in every row."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import ListConfig

from swe_plugin.data.rows import task_from_row
from swe_plugin.errors import ConfigError, EnvironmentStartError
from swe_plugin.grading.parsers import PARSERS
from swe_plugin.plugins import load_plugins
from swe_plugin.preflight.finding import Finding
from swe_plugin.types import Image, Task
from swe_plugin.verl_adapter.checks.rules import DATASET
from swe_plugin.verl_adapter.checks.settings import Settings

__all__ = ["check_tasks"]

_BATCH_ROWS = 256
_NAME_ONE = "name a parquet file with a task per row, see docs/recipes.md"


def check_tasks(s: Settings) -> Iterator[Finding]:
    """Read every row of every file."""
    if s.get("data.custom_cls.path") not in (None, "", DATASET[0]):
        yield Finding("tasks", True, "data.custom_cls reads them, so they are not looked at")
        return
    reader = _Reader(s)
    for key in ("data.train_files", "data.val_files"):
        given = s.get(key)
        if given is None:
            yield s.rule(key, s.swe.demo.enabled, _NAME_ONE, f"{key}: the demo's own")
            continue
        files = list(given) if isinstance(given, list | ListConfig) else [given]
        try:
            counts = [reader.read(key, str(file)) for file in files]
        except ConfigError as error:
            yield Finding.of(key, error)
            continue
        yield Finding(key, True, f"{key}: {sum(counts)} tasks")
        batch = s.get("data.train_batch_size")
        enough = key != "data.train_files" or sum(counts) >= batch or any("://" in str(file) for file in files)
        yield s.rule("data.train_batch_size", enough, f"must not exceed the {sum(counts)} rows of {key}")


class _Reader:
    """Reads files and remembers which images were found to be there."""

    def __init__(self, s: Settings) -> None:
        self._columns = (str(s.get("data.prompt_key") or "prompt"), "task")
        self._images: set[str] = set()
        self._check_image = _image_check(s.swe.environment.backend)

    def read(self, key: str, file: str) -> int:
        """Check one file; the number of its rows (0 if only verl can fetch it).

        Raises:
            ConfigError: names the file, and the row and column where one is wrong.
        """
        if "://" in file:
            return 0
        number = 0
        for number, row in enumerate(_rows(key, file, self._columns), start=1):
            problem = self._problem(row)
            if problem:
                raise ConfigError(key, file, f"row {number}, {problem}")
        return number

    def _problem(self, row: Mapping[str, Any]) -> str:
        prompt, task_column = self._columns
        messages = row[prompt]
        if not isinstance(messages, list) or not messages or not all(_is_message(m) for m in messages):
            return f"column {prompt}: must be a list of messages, each with role and content"
        text = row[task_column]
        if not isinstance(text, str):
            return f"column {task_column}: must be text, the JSON of swe_plugin.types.Task(...).to_json()"
        try:
            task_from_row({task_column: text})  # says which part of it is wrong
            task = Task.from_json(text)
        except ValueError as error:
            return str(error)
        if task.grading.parser not in PARSERS:
            known = ", ".join(PARSERS)
            return f"column {task_column}: grading.parser={task.grading.parser!r} must be one of {known}"
        return self._image_problem(task.image)

    def _image_problem(self, image: Image) -> str:
        seen = repr(replace(image, files=dict.fromkeys(list(image.files)[:1], "")))  # whether there are any
        if seen not in self._images and self._check_image is not None:
            try:
                self._check_image(image)
            except EnvironmentStartError as error:
                return f"column task: {error}"
        self._images.add(seen)
        return ""


def _image_check(backend: str) -> Callable[[Image], None] | None:
    try:
        found = load_plugins().load("environments", backend, "swe.environment.backend")
    except ConfigError:
        return None  # `check_agent` says what is registered
    check: Callable[[Image], None] | None = getattr(found, "check_image", None)
    return check


def _is_message(message: object) -> bool:
    return isinstance(message, dict) and isinstance(message.get("role"), str) and "content" in message


def _rows(key: str, file: str, columns: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    """Rows of a parquet, JSON or JSON-lines file, `columns` only.

    Raises:
        ConfigError: it is not there, cannot be read, or lacks a column.
    """
    path = Path(file).expanduser()
    if not path.is_file():
        raise ConfigError(key, file, "no such file; name one that exists, see docs/recipes.md for its columns")
    if path.suffix == ".parquet":
        return _parquet_rows(key, file, path, columns)
    if path.suffix in (".json", ".jsonl"):
        return _json_rows(key, file, path, columns)
    raise ConfigError(key, file, "must be a .parquet, .json or .jsonl file")


def _parquet_rows(key: str, file: str, path: Path, columns: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise ConfigError(key, file, f"is no parquet file: {error}") from error
    with table:
        _require_columns(key, file, table.schema_arrow.names, columns)
        for batch in table.iter_batches(_BATCH_ROWS, columns=list(columns)):
            yield from batch.to_pylist()


def _json_rows(key: str, file: str, path: Path, columns: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    text = path.read_text(encoding="utf-8")
    try:
        rows = json.loads(text) if text.lstrip().startswith("[") else [json.loads(line) for line in text.splitlines()]
    except ValueError as error:
        raise ConfigError(key, file, f"is no JSON: {error}") from error
    for row in rows:
        _require_columns(key, file, list(row), columns)
        yield row


def _require_columns(key: str, file: str, there: list[str], columns: tuple[str, ...]) -> None:
    for column in columns:
        if column not in there:
            fix = f"has no column {column!r}, only {', '.join(there)}; docs/recipes.md says what each row needs"
            raise ConfigError(key, file, fix)
