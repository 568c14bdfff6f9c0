"""`swe-plugin audit`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from swe_plugin.cli.commands.options import AsJson, fail

__all__ = ["register"]

_EPILOG = (
    "Example: swe-plugin audit outputs/2026-01-31_12-00-00 --sample 0.1\n\n"
    "Exit codes: 0 every token is proved; 1 a rule is broken; 2 that directory is no run, or records no rollouts."
)


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(epilog=_EPILOG)(audit)


def audit(
    run: Annotated[Path, typer.Argument(help="Directory of a run.", exists=True, file_okay=False)],
    sample: Annotated[float, typer.Option(min=0.0, max=1.0, help="Fraction of the rollouts to look at.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Prove that each trainable token was sampled, in the context it is trained in, and by which weights."""
    from swe_plugin.cli.audit import as_data, print_audit
    from swe_plugin.trajectories.audit import audit_run

    try:
        found = audit_run(run, sample=sample)
    except FileNotFoundError as error:
        fail(error)
    if not found.n_audited:
        fail(f"--sample {sample:g} holds none of the {found.n_rollouts} rollouts: take more of them")
    if as_json:
        print(json.dumps(as_data(found, run), indent=2))
    else:
        print_audit(found, run, Console(highlight=False))
    raise typer.Exit(0 if found.ok else 1)
