"""What several commands share: options, exit codes, the way an error is said."""

from __future__ import annotations

from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from swe_plugin.cli.commands import completion

__all__ = ["FAILED", "PASS_ON", "USAGE", "AsJson", "Dataset", "fail"]

FAILED = 1
"""Exit code: something that is not the user's doing did not work."""
USAGE = 2
"""Exit code: an argument or a setting is wrong."""
PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Context settings of a command that takes `key=value` words as they are."""
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable.")]
Dataset = Annotated[
    str,
    typer.Option(help="Registered name, or path of a .jsonl or .parquet file.", autocompletion=completion.datasets),
]


def fail(message: object, code: int = USAGE) -> NoReturn:
    """Say on stderr what is wrong, in one line, and end with `code`."""
    Console(stderr=True).print(f"[red]{escape(str(message))}[/red]", soft_wrap=True, highlight=False)
    raise typer.Exit(code)
