"""`swe-plugin plugins`."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from swe_plugin.cli.commands.options import FAILED, AsJson
from swe_plugin.plugins import Plugins

__all__ = ["register"]

_EPILOG = (
    "Example: swe-plugin plugins --json\n\nSWE_PLUGIN_DISABLE=name,name skips plugins by distribution or entry point, "
    "SWE_PLUGIN_TRACE=1 traces calls of hooks and shows where a broken plugin fails.\n\n"
    "Exit codes: 0; 1 where an installed plugin is broken."
)


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(epilog=_EPILOG)(plugins)


def plugins(as_json: AsJson = False) -> None:
    """List what is registered and by which distribution, and plugins that could not be loaded."""
    from swe_plugin.plugins import load_plugins

    loaded = load_plugins()
    if as_json:
        print(json.dumps(_as_data(loaded), indent=2))
    else:
        _print(loaded)
    raise typer.Exit(FAILED if loaded.broken else 0)


def _as_data(loaded: Plugins) -> dict[str, object]:
    return {
        "registered": [asdict(entry) for entry in loaded.entries.values()],
        "loaded": [asdict(source) for source in loaded.loaded],
        "broken": [asdict(item.source) | {"reason": item.reason} for item in loaded.broken],
        "disabled": [asdict(source) for source in loaded.disabled],
    }


def _print(loaded: Plugins) -> None:
    whole = (Column(title, no_wrap=True) for title in ("kind", "name"))
    table = Table(*whole, *(Column(title, overflow="fold") for title in ("from", "what", "target")))
    for entry in loaded.entries.values():
        row = (entry.kind, entry.name, f"{entry.distribution} {entry.version}", entry.summary, entry.target)
        table.add_row(*map(escape, row))
    Console().print(table)
    console = Console(stderr=True, highlight=False)
    for source in loaded.disabled:
        console.print(escape(f"{source} is disabled by SWE_PLUGIN_DISABLE"), soft_wrap=True)
    for item in loaded.broken:
        console.print(f"[red]{escape(str(item))}[/red]", soft_wrap=True)
