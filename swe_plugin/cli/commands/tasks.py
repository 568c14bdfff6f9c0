"""`swe-plugin tasks`."""

from __future__ import annotations

import json
from itertools import islice
from typing import Annotated

import typer
from rich.console import Console

from swe_plugin.cli.commands import completion
from swe_plugin.cli.commands.options import AsJson, Dataset, fail
from swe_plugin.errors import SwePluginError

__all__ = ["register"]

_EPILOG = (
    "Examples: swe-plugin tasks --limit 5, swe-plugin tasks --dataset my.jsonl --json, swe-plugin tasks "
    "demo__orchard-score-1 --reveal\n\nExit codes: 0; 2 no such dataset or task, or a row that is no task "
    "(says which row and column)."
)
_LINES = 20


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(epilog=_EPILOG)(tasks)


def tasks(
    instance: Annotated[
        str, typer.Argument(help="Show this one task whole.", show_default=False, autocompletion=completion.tasks)
    ] = "",
    dataset: Dataset = "demo",
    limit: Annotated[
        int | None,
        typer.Option(min=0, show_default=False, help=f"Tasks to list; 0: all. Default: {_LINES}, with --json all."),
    ] = None,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="Also hidden tests, reference fix and metadata, with an instance.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the tasks of a dataset, or show one of them.

    F2P are the tests that fail before the fix and must pass, P2P those that must keep passing.
    """
    from swe_plugin.cli.tasks import describe, find_task, overview, print_task, task_table
    from swe_plugin.config import SweConfig
    from swe_plugin.data.source import open_tasks
    from swe_plugin.plugins import load_plugins

    console = Console()
    try:
        found = open_tasks(dataset, SweConfig(), load_plugins(), "--dataset")
        if instance:
            task = find_task(found, instance, dataset)
            if as_json:
                print(json.dumps(describe(task, reveal=reveal), indent=2))
            else:
                print_task(task, console, reveal=reveal)
            return
        if as_json:
            print(json.dumps([overview(task) for task in islice(found, limit or None)], indent=2))
            return
        every = list(found)
    except SwePluginError as error:
        fail(error)
    shown = every[: (_LINES if limit is None else limit) or None]
    console.print(task_table(shown))
    if len(shown) < len(every):
        console.print(f"{len(shown)} of {len(every)}; --limit 0 lists all", highlight=False)
