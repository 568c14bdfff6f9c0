"""`swe-plugin new`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from swe_plugin.cli.commands.options import fail
from swe_plugin.errors import ConfigError

__all__ = ["register"]

_EPILOG = (
    "Examples: swe-plugin new scaffold my-agent, swe-plugin new backend my-cluster --out ~/code/my-cluster\n\n"
    "Exit codes: 0; 2 an unknown kind, a name that is none, or a folder that is not empty."
)


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(epilog=_EPILOG)(new)


def new(
    kind: Annotated[
        str,
        typer.Argument(help="scaffold, backend or dataset.", autocompletion=lambda: ["scaffold", "backend", "dataset"]),
    ],
    name: Annotated[str, typer.Argument(help="Lower-case words joined by hyphens.")],
    out: Annotated[Path | None, typer.Option(help="Folder to make. Default: swe-plugin-NAME, here.")] = None,
) -> None:
    """Write a working package that registers an agent, a backend or a dataset, with tests, to start from."""
    from swe_plugin.cli.new.writer import write_package

    folder = out or Path(f"swe-plugin-{name}")
    try:
        for path in write_package(kind, name, folder):
            print(path)
    except ConfigError as error:
        fail(error)
    print(f"next: cd {folder} && pip install -e '.[test]' && pytest")
