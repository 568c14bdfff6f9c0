"""`prepare`: rows in, training files and a summary out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from swe_plugin.data.prepare.inputs import Rows
from swe_plugin.data.prepare.selection import Selection
from swe_plugin.data.prepare.spool import Spool
from swe_plugin.data.prepare.summary import Summary
from swe_plugin.data.sources import Dropped, Reason, Source
from swe_plugin.data.training_file import TrainingFile
from swe_plugin.errors import ConfigError

__all__ = ["Measure", "prepare", "token_counter"]

TokenCounter = Callable[[str], int]
Measure = Callable[[Iterable[str]], Mapping[str, Any]]
"""Bases of images -> what is known of their sizes, for ``summary.json``."""


def prepare(
    source: Source,
    rows: Rows,
    selection: Selection,
    out: Path,
    *,
    data_source: str,
    count: TokenCounter | None = None,
    measure: Measure | None = None,
) -> Summary:
    """Write ``train.parquet``, ``val.parquet`` (if something is held out), ``images.txt`` and ``summary.json``.

    Args:
        source: makes tasks of rows.
        rows: what to read; memory does not grow with their number, but for a few words per task.
        selection: what is wanted, in which order.
        out: directory, made if it is not there; files of these names are replaced.
        data_source: name of the data set in the files.
        count: tokens of a problem statement.
        measure: sizes of images.

    Raises:
        ConfigError: while reading the rows.
        OSError: `out` cannot be written.
    """
    summary = Summary()
    out.mkdir(parents=True, exist_ok=True)
    with Spool() as spool:
        _read(source, rows, selection, count, spool, summary)
        order = selection.order(len(spool.tasks))
        if sliced := len(spool.tasks) - len(order):
            summary.dropped[Reason.SLICED] = sliced
        held_out = selection.held_out([spool.tasks[index].repo for index in order])
        for split in ("train", "val"):
            indices = [index for index in order if (spool.tasks[index].repo in held_out) == (split == "val")]
            _write(spool, indices, out / f"{split}.parquet", data_source)
            if indices:
                summary.kept[split] = len(indices)
        for item in map(spool.tasks.__getitem__, order):
            summary.repos[item.repo] += 1
            summary.bases[item.base] += 1
            summary.recipes.update({item.recipe} - {""})
            if count is not None:
                summary.tokens.append(item.tokens)
    if measure is not None:
        summary.sizes = measure(summary.bases)
    (out / "images.txt").write_text("".join(f"{base}\n" for base in sorted(summary.bases)), encoding="utf-8")
    (out / "summary.json").write_text(json.dumps(summary.to_json(), indent=1, ensure_ascii=False), encoding="utf-8")
    return summary


def _read(
    source: Source, rows: Rows, selection: Selection, count: TokenCounter | None, spool: Spool, summary: Summary
) -> None:
    seen: set[str] = set()
    for where, row in rows:
        summary.read += 1
        name = where
        try:
            if not isinstance(row, Mapping):
                raise Dropped(Reason.BAD_ROW, "no object")
            name = _name(row, where)
            selection.check_row(row)
            task = source.read(row)
            if task.instance_id in seen:
                raise Dropped(Reason.DUPLICATE, task.instance_id)
            tokens = count(task.problem_statement) if count else 0
            selection.check_task(task, tokens)
            spool.add(task, tokens)
        except Dropped as dropped:
            summary.drop(name, dropped)
        except UnicodeEncodeError as error:
            summary.drop(name, Dropped(Reason.BAD_ROW, f"a text is no UTF-8: {error.reason}"))
        else:
            seen.add(task.instance_id)


def _name(row: Mapping[Any, Any], where: str) -> str:
    given = row.get("instance_id")
    return f"{given} ({where})" if isinstance(given, str) and given else where


def _write(spool: Spool, indices: list[int], path: Path, data_source: str) -> None:
    path.unlink(missing_ok=True)  # of an earlier call: never two splits that do not belong together
    if indices:
        with TrainingFile(path, data_source) as file:
            for index in indices:
                file.add(spool.read(spool.tasks[index]))


def token_counter(path: str) -> TokenCounter:
    """Counts tokens with the tokenizer of a model.

    Args:
        path: directory with a ``tokenizer.json``, or that file.

    Raises:
        ConfigError: there is none, or the package `tokenizers` is not installed.
    """
    file = Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ConfigError("--tokenizer", path, f"pip install tokenizers ({error})") from error
    if not file.is_file():
        raise ConfigError("--tokenizer", path, "must be a model's directory with tokenizer.json, or that file")
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises bare Exception
        raise ConfigError("--tokenizer", path, f"is no tokenizer: {error}") from error
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
