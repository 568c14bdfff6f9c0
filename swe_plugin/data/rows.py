"""Rows of a task file, and the tasks made of them."""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from swe_plugin.types import GradingSpec, Image, Task

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["RowError", "task_from_row"]

_COLUMN = "task"
_NESTED = {"image": Image, "grading": GradingSpec}


class RowError(ValueError):
    """A row is no task; the message begins with the column, e.g. ``column grading.timeout_s: ...``."""


def task_from_row(row: object) -> Task:
    """The task of one row, every value of it checked.

    A row either has a column ``task`` (the JSON of `Task.to_json`, as in the files that training reads) or is the
    task itself. What has a default may be left out or null.

    Raises:
        RowError: a column is missing, unknown or of another type.
    """
    if isinstance(row, Mapping) and row.get(_COLUMN) is not None:
        return _task(_decoded(row[_COLUMN]), f"{_COLUMN}.")
    return _task(row, "")


def _task(row: object, prefix: str) -> Task:
    from pydantic import ValidationError

    if not isinstance(row, Mapping):
        raise RowError(f"{_shown(row)} is no object")
    given = _known(Task, row, prefix)
    for name, schema in _NESTED.items():
        if isinstance(given.get(name), Mapping):
            given[name] = _known(schema, given[name], f"{prefix}{name}.")
    try:
        task = _checker().validate_python(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        column = prefix + ".".join(map(str, first["loc"]))
        reason = "missing" if first["type"] == "missing" else f"{_shown(first['input'])}: {first['msg']}"
        raise RowError(f"column {column}: {reason}") from error
    if not task.instance_id:
        raise RowError(f"column {prefix}instance_id: empty")
    return task


def _known(schema: type, given: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """What is given and not null, if all of it belongs to `schema`."""
    names = [field.name for field in dataclasses.fields(schema)]
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(str(name), names, n=1)
            hint = f"did you mean {prefix}{near[0]}?" if near else f"there are {', '.join(names)}"
            raise RowError(f"column {prefix}{name}: unknown; {hint}")
    return {name: value for name, value in given.items() if value is not None}


def _decoded(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise RowError(f"column {_COLUMN}: no JSON: {error}") from error


@cache
def _checker() -> TypeAdapter[Task]:
    from pydantic import TypeAdapter

    return TypeAdapter(Task)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
