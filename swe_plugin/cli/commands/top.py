"""`swe-plugin top`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from swe_plugin.cli.commands.options import fail

__all__ = ["register"]

_EPILOG = (
    "Example: swe-plugin top outputs/2026-01-31_12-00-00\n\nExit codes: 0; 2 that directory is no run, or not of this "
    "version."
)
_EVERY_S = 1.0
_WIDTH = 200
"""Of what is printed once, whatever the terminal; scripts get whole lines."""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(epilog=_EPILOG)(top)


def top(
    run: Annotated[Path, typer.Argument(help="Directory of a run, also while it goes on.", exists=True)],
    once: Annotated[bool, typer.Option("--once", help="Print the table once and end; for scripts.")] = False,
    rows: Annotated[int, typer.Option(min=1, help="Rollouts to show.")] = 30,
) -> None:
    """Watch the rollouts of a run: state, turn, last command, age, node. Ctrl-C ends it, not the run.

    Shows what runs; if nothing does, what ended last. States: start (waits for a slot, or for its environment), setup,
    generate (waits for the model), exec (runs a command), patch, grade; silent (its worker
    has not been heard of for 15 s: gone, or hanging); then why it ended.
    """
    from swe_plugin.cli.top import RunView

    if not any(run.glob("step_*")) and not (run / "live").is_dir():
        fail(f"{run}: no rollout was begun there")
    view, console = RunView(run), Console(width=_WIDTH) if once else Console()
    try:
        if once:
            console.print(view.render(rows))
            return
        with Live(view.render(rows), console=console, auto_refresh=False, screen=console.is_terminal) as live:
            while True:
                time.sleep(_EVERY_S)
                live.update(view.render(rows), refresh=True)
    except KeyboardInterrupt:
        return
    except ValueError as error:
        fail(f"{run}: {error}")
