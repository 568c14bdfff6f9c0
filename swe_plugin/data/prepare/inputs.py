"""Where rows come from: files, the Hugging Face hub, or a registered dataset."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swe_plugin.data.files import SUFFIXES, read_rows
from swe_plugin.data.source import open_tasks
from swe_plugin.data.sources import Source
from swe_plugin.data.sources.mapping import Mapped
from swe_plugin.data.sources.tasks import Tasks
from swe_plugin.errors import ConfigError

if TYPE_CHECKING:
    from swe_plugin.config import SweConfig
    from swe_plugin.plugins import Plugins

__all__ = ["HUB", "Rows", "open_source"]

HUB = "hub:"
"""Prefix of an input that is a name on the Hugging Face hub, or a local copy of its repository."""

Rows = Iterator[tuple[str, object]]
"""``(where, row)``: the place is for reports, e.g. ``rows.jsonl:17``."""


def open_source(name: str, inputs: Sequence[str], config: SweConfig, plugins: Plugins) -> tuple[Source, Rows]:
    """A source and its rows, which are read as they are asked for.

    Args:
        name: registered by ``swe_register_datasets``, or the path of a mapping in YAML.
        inputs: files, or ``hub:<owner>/<name>[:<split>]``; none: the source's own name on the hub.
        config: handed to datasets that make their tasks themselves.
        plugins: where names are looked up.

    Raises:
        ConfigError: unknown name, nothing to read, or (while reading) a file that cannot be read.
        PluginError: the source cannot be imported, or failed.
    """
    if name.endswith((".yaml", ".yml")):
        return Mapped(Path(name)), _read(inputs, "", "")
    found = plugins.load("datasets", name, "source")
    if isinstance(found, type) and issubclass(found, Source):
        return found(), _read(inputs, found.hub, found.split)
    if inputs:
        raise ConfigError("rows", list(inputs), f"dataset {name!r} makes its tasks itself; leave them out")
    tasks = enumerate(open_tasks(name, config, plugins, "source"), start=1)
    return Tasks(), ((f"{name}:{number}", dataclasses.asdict(task)) for number, task in tasks)


def _read(inputs: Sequence[str], hub: str, split: str) -> Rows:
    if not inputs and not hub:
        raise ConfigError("rows", [], f"give files that end in {' or '.join(SUFFIXES)}, or {HUB}<owner>/<name>")
    return _chain(inputs or [f"{HUB}{hub}"], split)


def _chain(inputs: Sequence[str], split: str) -> Rows:
    for name in inputs:
        if name.startswith(HUB):
            yield from _hub(name.removeprefix(HUB), split)
        else:
            for number, row in read_rows(Path(name), "rows"):
                yield f"{name}:{number}", row


def _hub(name: str, split: str) -> Rows:
    """Rows of a dataset, streamed: nothing is kept in memory, and no more is fetched than is read."""
    try:
        import datasets
    except ImportError as error:
        raise ConfigError("rows", f"{HUB}{name}", f"pip install datasets, or give files ({error})") from error
    repository, _, named = name.partition(":")
    try:
        loaded: Any = datasets.load_dataset(repository, split=named or split or "train", streaming=True)
        for number, row in enumerate(loaded, start=1):
            yield f"{HUB}{name}:{number}", row
    except Exception as error:  # a library of many errors, each of them: these rows cannot be had
        reason = " ".join(str(error).split())[:300]
        fix = f"cannot be read ({type(error).__name__}: {reason}); where the hub is out of reach, give files"
        raise ConfigError("rows", f"{HUB}{name}", fix) from error
