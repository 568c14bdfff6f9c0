"""`Mapped`: a source that is a file in YAML."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from swe_plugin.data.sources.dropped import Dropped, Reason
from swe_plugin.data.sources.row import Row
from swe_plugin.data.sources.source import Source
from swe_plugin.data.sources.tasks import Tasks
from swe_plugin.errors import ConfigError
from swe_plugin.types import Task

__all__ = ["Mapped"]

_TOP = ("instance_id", "problem_statement", "repo", "base_commit", "gold_patch")
_GRADING = ("command", "parser", "test_patch", "protected", "fail_to_pass", "pass_to_pass", "expected", "timeout_s")
_LISTS = ("fail_to_pass", "pass_to_pass", "protected")
_FIELDS = (*_TOP, "image", "workdir", *_GRADING)
_COLUMN = re.compile(r"\{([^{}]+)\}")


class Mapped(Source):
    """Each field of a task is a template over the row's columns: ``"{owner}/{name}"``. A template that is one column
    and nothing else has the column's value as it is, a list for instance.

    Args:
        path: a YAML file, one ``field: template`` a line.

    Raises:
        ConfigError: it cannot be read, or names a field that does not exist.
    """

    needs_base: ClassVar[bool] = False

    def __init__(self, path: Path) -> None:
        import yaml

        try:
            # no types: a version 3.10 stays "3.10"
            loaded = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)  # noqa: S506
        except (OSError, yaml.YAMLError) as error:
            raise ConfigError("source", str(path), f"cannot be read: {' '.join(str(error).split())}") from error
        if not isinstance(loaded, dict):
            raise ConfigError("source", str(path), "must hold lines of the form field: template")
        for name in loaded:
            if name not in _FIELDS:
                near = difflib.get_close_matches(str(name), _FIELDS, n=1)
                raise ConfigError(
                    "source",
                    str(path),
                    f"unknown field {name}; {f'did you mean {near[0]}? ' if near else ''}"
                    f"fields are {', '.join(_FIELDS)}",
                )
        self._templates: Mapping[str, Any] = loaded

    def task(self, row: Row) -> Task:
        """See `Source.task`."""
        given = {name: _filled(template, row.values) for name, template in self._templates.items()}
        for name in _LISTS:
            if name in given:
                given[name] = Row(given).tests(name)
        if "expected" in given:
            given["expected"] = Row(given).mapping("expected")
        image = {"base": given.get("image"), "workdir": given.get("workdir")}
        plain = {name: given[name] for name in _TOP if name in given}
        grading = {name: given[name] for name in _GRADING if name in given}
        if isinstance(timeout := grading.get("timeout_s"), str):
            grading["timeout_s"] = _number(timeout)
        return Tasks().task(Row({**plain, "image": image, "grading": grading}))


def _filled(template: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(template, list):
        return [_filled(item, values) for item in template]
    if whole := _COLUMN.fullmatch(template):
        return _value(whole[1], values)
    return _COLUMN.sub(lambda match: str(_value(match[1], values)), template)


def _value(column: str, values: Mapping[str, Any]) -> Any:
    if column not in values:
        raise Dropped(Reason.BAD_ROW, f"column {column}: missing")
    return values[column]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise Dropped(Reason.BAD_ROW, f"timeout_s: {text!r} is no number") from error
