"""`swe-plugin plugins`."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from swe_plugin.cli.commands.options import AsJson

__all__ = ["register"]

_EPILOG = (
    "Example: swe-plugin plugins --json\n\nSWE_PLUGIN_DISABLE=dist-a,dist-b skips plugins, SWE_PLUGIN_TRACE=1 traces "
    "calls of hooks.\n\nExit codes: 0, also where a plugin is broken."
)


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(epilog=_EPILOG)(plugins)


def plugins(as_json: AsJson = False) -> None:
    """List what is registered and by which distribution, and plugins that could not be loaded."""
    from swe_plugin.plugins import load_plugins

    loaded = load_plugins()
    entries, broken = [asdict(e) for e in loaded.entries.values()], [asdict(b) for b in loaded.broken]
    if as_json:
        print(json.dumps({"registered": entries, "broken": broken}, indent=2))
        return
    table = Table("kind", "name", "from", "what", "target")
    for entry in loaded.entries.values():
        table.add_row(entry.kind, entry.name, entry.distribution, entry.summary, entry.target)
    Console().print(table)
    for item in loaded.broken:
        Console(stderr=True).print(f"[red]{escape(f'{item.distribution}: {item.reason}')}[/red]")
