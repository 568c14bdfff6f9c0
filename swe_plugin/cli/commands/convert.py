"""`swe-plugin convert`."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from swe_plugin.cli.commands.options import FAILED, fail
from swe_plugin.errors import ConfigError

__all__ = ["Target", "register"]

_EPILOG = (
    "Example: swe-plugin convert outputs/2026-01-31_12-00-00 --out sft.parquet --min-reward 1\n\n"
    "Exit codes: 0; 1 a trajectory gives no row, or --check found a place; 2 an argument or a file is wrong."
)


class Target(StrEnum):
    """What is written."""

    SFT = "sft"
    ATIF = "atif"
    TRAJ = "traj"


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(epilog=_EPILOG)(convert)


def convert(
    sources: Annotated[
        list[Path],
        typer.Argument(help="Runs of ours; .traj, mini-swe-agent, ATIF or OpenAI-style logs, or folders of them."),
    ],
    out: Annotated[Path | None, typer.Option(help="File (sft) or directory (atif, traj).")] = None,
    to: Annotated[Target, typer.Option(help="Rows for verl's SFT trainer, or another format.")] = Target.SFT,
    tokenizer: Annotated[str, typer.Option(help="Model whose tokens text becomes; not needed for our records.")] = "",
    template: Annotated[str, typer.Option(help="Chat template instead of the tokenizer's: path or text.")] = "",
    max_length: Annotated[int, typer.Option(min=0, help="Leave out longer rows; 0: none.")] = 0,
    min_reward: Annotated[float | None, typer.Option(help="Leave out trajectories with less.")] = None,
    check: Annotated[bool, typer.Option(help="Report every place where the template is not append-only.")] = False,
) -> None:
    """Turn trajectories into training rows, or into the formats of others."""
    from swe_plugin.cli.convert import build_renderer, export, make_rows
    from swe_plugin.trajectories.formats import read_conversations

    if out is None and not check:
        fail("give --out, or --check alone")
    conversations = (conversation for source in sources for conversation in read_conversations(source))
    try:
        if to is not Target.SFT:
            if out is None:
                fail(f"--to {to} needs --out")
            print(f"{export(conversations, to, out)} trajectories in {out}")
            return
        renderer = build_renderer(tokenizer, template) if tokenizer else None
        summary, problems = make_rows(
            conversations, out, renderer=renderer, max_length=max_length, min_reward=min_reward, check=check
        )
    except (ConfigError, OSError, ValueError) as error:
        fail(error)
    for problem in problems:
        sys.stderr.write(f"{problem.name}: {'no row: ' if problem.fatal else ''}{problem.text}\n")
    print(json.dumps(summary, indent=1))
    raise typer.Exit(FAILED if problems or not summary["rows"] else 0)
