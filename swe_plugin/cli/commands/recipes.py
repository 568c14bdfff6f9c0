"""`swe-plugin recipes`."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer
from rich.console import Console
from rich.table import Column, Table

from swe_plugin.cli.commands.options import AsJson

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(epilog="Example: swe-plugin recipes --json\n\nExit codes: 0.")(recipes)


def recipes(as_json: AsJson = False) -> None:
    """List what `+plugin=` can select."""
    from swe_plugin.cli.recipes import find_recipes

    found = find_recipes()
    if as_json:
        print(json.dumps([asdict(recipe) | {"path": str(recipe.path)} for recipe in found], indent=2))
        return
    table = Table(Column("+plugin=", no_wrap=True), Column("what", overflow="fold"), Column("file", overflow="fold"))
    for recipe in found:
        table.add_row(recipe.name, recipe.summary, str(recipe.path))
    Console().print(table)
