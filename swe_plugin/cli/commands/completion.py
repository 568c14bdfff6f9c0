"""What the shell offers after Tab: recipes, tasks, policies, backends, datasets. Mistakes offer nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import typer

from swe_plugin.errors import SwePluginError

__all__ = ["backends", "datasets", "policies", "recipes", "tasks", "unattended_policies"]

_MOST = 500  # a terminal cannot show more, and a dataset may be large


def recipes(incomplete: str) -> list[tuple[str, str]]:
    """Words for ``--recipe``."""
    from swe_plugin.cli.recipes import find_recipes

    named = ((recipe.name.removeprefix("swe/"), recipe.summary) for recipe in find_recipes())
    return [item for item in named if item[0].startswith(incomplete) and item[0] != "swe"]


def backends(incomplete: str) -> list[tuple[str, str]]:
    """Registered environment backends."""
    return _registered("environments", incomplete)


def datasets(incomplete: str) -> list[tuple[str, str]]:
    """Registered datasets, and task files below what was typed so far."""
    from swe_plugin.data.files import SUFFIXES

    folder = Path(incomplete).parent if not incomplete.endswith("/") else Path(incomplete)
    try:
        found = sorted(folder.iterdir())
    except OSError:
        found = []
    paths = [f"{path}/" if path.is_dir() else str(path) for path in found if path.is_dir() or path.suffix in SUFFIXES]
    return [*_registered("datasets", incomplete), *((path, "") for path in paths if path.startswith(incomplete))]


def policies(incomplete: str) -> list[tuple[str, str]]:
    """Words for ``--policy``."""
    from swe_plugin.cli.episode.choice import POLICIES

    return [item for item in POLICIES.items() if item[0].startswith(incomplete)]


def unattended_policies(incomplete: str) -> list[tuple[str, str]]:
    """Those that need nobody at a keyboard."""
    return [item for item in policies(incomplete) if item[0] != "keyboard"]


def tasks(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Instance ids of the dataset that the command line names."""
    return list(islice(_tasks(context.params.get("dataset") or "demo", incomplete), _MOST))


def _tasks(dataset: str, incomplete: str) -> Iterator[tuple[str, str]]:
    from swe_plugin.config import SweConfig
    from swe_plugin.data.source import open_tasks
    from swe_plugin.plugins import load_plugins

    try:
        for task in open_tasks(dataset, SweConfig(), load_plugins(), "--dataset"):
            if task.instance_id.startswith(incomplete):
                yield task.instance_id, " ".join(task.problem_statement.split())[:60]
    except SwePluginError:
        return


def _registered(kind: str, incomplete: str) -> list[tuple[str, str]]:
    from swe_plugin.plugins import load_plugins

    entries = load_plugins().entries.values()
    return [(e.name, e.summary) for e in entries if e.kind == kind and e.name.startswith(incomplete)]
