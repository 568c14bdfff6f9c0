"""Where tasks come from: a file, or a source that somebody registered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swe_plugin.data.files import SUFFIXES, read_tasks
from swe_plugin.data.sources import Source
from swe_plugin.errors import ConfigError, PluginError

if TYPE_CHECKING:
    from swe_plugin.config import SweConfig
    from swe_plugin.plugins import Plugins
    from swe_plugin.types import Task

__all__ = ["open_tasks"]


def open_tasks(dataset: str, config: SweConfig, plugins: Plugins, key: str) -> Iterable[Task]:
    """The tasks of a dataset, possibly read as they are asked for.

    Args:
        dataset: path that ends in ``.jsonl`` or ``.parquet``, else a name registered by ``swe_register_datasets``.
        config: the ``swe:`` section; a source is called with its part ``swe.demo``.
        plugins: where names are looked up.
        key: setting that names the dataset, for errors.

    Raises:
        ConfigError: neither, a file of another kind, or (while reading) a row that is no task.
        PluginError: the source cannot be imported, or failed.
    """
    if dataset.endswith(SUFFIXES):
        return read_tasks(Path(dataset), key)
    if dataset not in plugins.names("datasets") and Path(dataset).is_file():
        raise ConfigError(key, dataset, f"a file of tasks ends in {' or '.join(SUFFIXES)}")
    source: Any = plugins.load("datasets", dataset, key)
    if isinstance(source, type) and issubclass(source, Source):
        raise ConfigError(key, dataset, f"has rows, not tasks: swe-plugin prepare {dataset}, then give the .parquet")
    return _guarded(source, config.demo, dataset)


def _guarded(source: Callable[[Any], Iterable[Task]], settings: object, dataset: str) -> Iterator[Task]:
    try:
        yield from source(settings)
    except Exception as error:
        raise PluginError(f"dataset {dataset!r} failed: {type(error).__name__}: {error}") from error
