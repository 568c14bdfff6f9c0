"""What several commands share: options, exit codes, the way an error is said."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from swe_plugin.cli.commands import completion

__all__ = ["FAILED", "PASS_ON", "USAGE", "AsJson", "Backend", "Dataset", "Script", "Settings", "fail", "settings_of"]

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

Settings = Annotated[
    list[str] | None, typer.Argument(metavar="[swe.KEY=VALUE]...", help="Settings, see docs/configuration.md.")
]
Backend = Annotated[str, typer.Option(help="Short for swe.environment.backend.", autocompletion=completion.backends)]
Script = Annotated[
    Path | None, typer.Option(help="YAML or JSON for scripted: a list of commands, or {answers: [...]}.")
]


def settings_of(words: Iterable[str] | None, backend: str, **others: object) -> list[str]:
    """Words ``swe.key=value``, with those that other options are short for (dots as ``__``; not given: None)."""
    shorts = {"environment__backend": backend or None} | others
    given = {key.replace("__", "."): value for key, value in shorts.items() if value is not None}
    return [*(words or ()), *(f"swe.{key}={value}" for key, value in given.items())]


def fail(message: object, code: int = USAGE) -> NoReturn:
    """Say on stderr what is wrong, in one line, and end with `code`."""
    Console(stderr=True).print(f"[red]{escape(str(message))}[/red]", soft_wrap=True, highlight=False)
    raise typer.Exit(code)
