"""`swe-plugin clean`."""

from __future__ import annotations

import typer
from rich.console import Console

__all__ = ["register"]

_EPILOG = "Example: swe-plugin clean\n\nExit codes: 0; 1 something could not be removed (shown)."


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(epilog=_EPILOG)(clean)


def clean() -> None:
    """Remove what dead runs left: processes, mounts, cgroups, directories. Living runs are not touched."""
    from swe_plugin.cli.clean import clean

    raise typer.Exit(clean(Console()))
