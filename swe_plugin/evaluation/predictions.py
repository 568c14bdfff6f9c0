"""Files of predictions in SWE-bench's format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from swe_plugin.errors import ConfigError
from swe_plugin.evaluation.sample_result import SampleResult

__all__ = ["predictions_file", "read_predictions", "write_predictions"]

_ID, _MODEL, _PATCH = "instance_id", "model_name_or_path", "model_patch"
_SUFFIXES = (".json", ".jsonl")


def read_predictions(path: Path, key: str) -> dict[str, tuple[str, str]]:
    """Instance id -> (patch, model). A patch that is null is empty; one without a final line end gets it, as no diff
    can do without.

    Args:
        path: ``.json`` (a list of objects, or an object of them by instance id) or ``.jsonl`` (one a line), each with
            ``instance_id``, ``model_patch`` and ``model_name_or_path``.
        key: option that names the file, for errors.

    Raises:
        ConfigError: no such file, another format, or an instance id twice; says which item (counted from 1).
    """
    found: dict[str, tuple[str, str]] = {}
    for number, item in _items(path, key):
        try:
            instance_id, patch, model = _prediction(item)
        except ValueError as error:
            raise ConfigError(key, str(path), f"item {number}: {error}") from error
        if instance_id in found:
            raise ConfigError(key, str(path), f"item {number}: a second prediction for {instance_id!r}")
        found[instance_id] = patch, model
    if not found:
        raise ConfigError(key, str(path), "has no predictions")
    return found


def write_predictions(directory: Path, results: Iterable[SampleResult]) -> list[Path]:
    """Write what SWE-bench's own harness can grade: ``preds.json`` with the first sample of each task, ``preds_1.json``
    with the second and so on. Samples that ended before there was a patch are left out.

    Returns:
        The files.
    """
    files: dict[int, dict[str, dict[str, str]]] = {}
    for item in sorted(results, key=lambda result: result.key):
        if item.resolved is not None or item.patch:
            prediction = {_MODEL: item.model, _ID: item.instance_id, _PATCH: item.patch}
            files.setdefault(item.session, {})[item.instance_id] = prediction
    written = []
    for session, predictions in sorted(files.items()):
        path = directory / predictions_file(session)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(predictions, indent=2) + "\n", encoding="ascii")
        written.append(partial.replace(path))
    return written


def predictions_file(session: int) -> str:
    """Name of the file with the predictions of one session."""
    return f"preds_{session}.json" if session else "preds.json"


def _items(path: Path, key: str) -> Iterator[tuple[int, Any]]:
    if path.suffix not in _SUFFIXES:
        raise ConfigError(key, str(path), f"must end in {' or '.join(_SUFFIXES)}")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(key, str(path), f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(key, str(path), f"is no UTF-8: {error}") from error
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    for number, line in lines if path.suffix == ".jsonl" else [(1, text)]:
        try:
            content = json.loads(line)
        except ValueError as error:
            where = f"line {number}: " if path.suffix == ".jsonl" else ""
            raise ConfigError(key, str(path), f"{where}no JSON: {error}") from error
        if path.suffix == ".jsonl":
            yield number, content
            continue
        if isinstance(content, dict):
            content = [{_ID: name, **item} if isinstance(item, dict) else item for name, item in content.items()]
        if not isinstance(content, list):
            raise ConfigError(key, str(path), "must be a list of predictions, or an object of them by instance id")
        yield from enumerate(content, start=1)


def _prediction(item: Any) -> tuple[str, str, str]:
    if not isinstance(item, Mapping):
        raise ValueError(f"{str(item)[:60]!r} is no object")  # noqa: TRY004 - becomes a ConfigError
    for name in (_ID, _PATCH):
        if name not in item:
            raise ValueError(f"{name} is missing")
    instance_id, patch, model = item[_ID], item[_PATCH], item.get(_MODEL)
    if not isinstance(instance_id, str) or not isinstance(patch, str | None) or not isinstance(model, str | None):
        raise ValueError(f"{_ID}, {_PATCH} and {_MODEL} must be texts")  # noqa: TRY004 - becomes a ConfigError
    patch = patch or ""
    return instance_id, patch if not patch or patch.endswith("\n") else f"{patch}\n", model or ""
