"""The typer application. Commands of plugins (hook `swe_register_commands`) appear beside ours."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.markup import escape

from swe_plugin.cli.commands import clean, plugins, recipes, report, train, version
from swe_plugin.errors import PluginError

__all__ = ["build_app"]

_COMMANDS = (train, report, recipes, plugins, clean, version)
"""In the order of `--help`."""


def build_app() -> typer.Typer:
    """Our commands, and those of plugins; a plugin's command that cannot be loaded says so when it is called."""
    app = typer.Typer(name="swe-plugin", help="Software-engineering RL for verl.", no_args_is_help=True)
    for command in _COMMANDS:
        command.register(app)
    _add_plugin_commands(app)
    return app


def _add_plugin_commands(app: typer.Typer) -> None:
    from swe_plugin.plugins import load_plugins

    loaded = load_plugins()
    for name in loaded.names("commands"):
        try:
            app.add_typer(loaded.load("commands", name, "swe-plugin"), name=name)
        except PluginError as error:
            Console(stderr=True).print(f"[red]{escape(str(error))}[/red]")
