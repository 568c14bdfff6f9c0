"""`swe-plugin train`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from swe_plugin.cli.commands import completion
from swe_plugin.cli.commands.options import PASS_ON, USAGE, fail
from swe_plugin.errors import SwePluginError

__all__ = ["register"]

_EPILOG = (
    "Example: swe-plugin train --recipe demo_ppo trainer.total_training_steps=5\n\n"
    "Exit codes: 0; 2 a setting was refused before anything started; 130 after Ctrl-C (a second one kills); "
    "otherwise verl's own."
)


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(context_settings=PASS_ON, epilog=_EPILOG)(train)


def train(
    context: typer.Context,
    recipe: Annotated[
        str,
        typer.Option(help="Recipe after +plugin=swe/; none: the embedded demo.", autocompletion=completion.recipes),
    ] = "",
) -> None:
    """Run verl with the plugin, show progress, end with the report.

    Every other word goes to verl as it is.
    """
    from swe_plugin.cli.train import train, training_command

    try:
        code = train(training_command(recipe, context.args), Console(highlight=False))
    except SwePluginError as error:
        fail(error, USAGE)
    raise typer.Exit(code)
