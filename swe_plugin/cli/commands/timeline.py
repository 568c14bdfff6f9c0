"""`swe-plugin timeline`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from swe_plugin.cli.commands.options import fail

__all__ = ["register"]

_EPILOG = (
    "Example: swe-plugin timeline outputs/2026-01-31_12-00-00 --step 3 --step 4\n\nExit codes: 0; 1 it cannot be "
    "written; 2 that directory has no rollouts with times."
)


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(epilog=_EPILOG)(timeline)


def timeline(
    run: Annotated[Path, typer.Argument(help="Directory of a run.", exists=True)],
    step: Annotated[list[int] | None, typer.Option(help="Trainer step to show; again for more. Default: all.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where the two files go. Default: the run's directory.")] = None,
) -> None:
    """Draw what happened when: environments, model, commands, grading, training.

    Writes timeline.json, to be opened in https://ui.perfetto.dev or chrome://tracing, and timeline.svg, a picture.
    """
    from swe_plugin.cli.timeline import svg
    from swe_plugin.trajectories.timeline import read_timeline

    try:
        found = read_timeline(run, step or ())
    except FileNotFoundError as error:
        fail(f"{run}: {error.strerror}" + (f" in step {', '.join(map(str, step))}" if step else ""))
    target = out or run
    try:
        target.mkdir(parents=True, exist_ok=True)
        (target / "timeline.json").write_text(json.dumps(found.chrome_trace()), encoding="utf-8")
        (target / "timeline.svg").write_text(svg(found), encoding="utf-8")
    except OSError as error:
        fail(f"{target}: cannot write there: {error.strerror}", 1)
    print(f"{target / 'timeline.json'}\n{target / 'timeline.svg'}")
