"""`swe-plugin report`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from swe_plugin.cli.commands.options import AsJson, fail

__all__ = ["register"]

_EPILOG = "Example: swe-plugin report outputs/2026-01-31_12-00-00\n\nExit codes: 0; 2 that directory is no run."


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(epilog=_EPILOG)(report)


def report(
    run: Annotated[Path, typer.Argument(help="Directory of a run.", exists=True)], as_json: AsJson = False
) -> None:
    """Show what a run learned and what it cost, also while it goes on."""
    from swe_plugin.cli.report import print_report, summarize

    try:
        if as_json:
            print(json.dumps(summarize(run), indent=2))
        else:
            print_report(run)
    except FileNotFoundError as error:
        fail(f"{run} is no run: {error.filename} is missing")
