"""What `swe-plugin prepare` prints."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from swe_plugin.data.prepare.summary import Summary

__all__ = ["print_summary"]


def print_summary(summary: Summary, folder: Path) -> None:
    """The counts, each reason with its first rows, and what the tasks need."""
    console = Console(highlight=False)
    data = summary.to_json()
    table = Table("rows", "what became of them", "first of them")
    table.columns[0].justify = "right"
    table.add_row(str(summary.read), "read", "")
    for split, kept in summary.kept.items():
        table.add_row(str(kept), f"kept: {escape(str(folder / split))}.parquet", "")
    for reason, found in data["dropped"].items():
        table.add_row(str(found["rows"]), f"left out: {reason}", escape("\n".join(found["examples"])))
    console.print(table)
    if tokens := data["statement_tokens"]:
        spread = ", ".join(f"{name} {value:.0f}" for name, value in tokens.items())
        console.print(f"tokens of a problem statement: {spread}")
    images = f"{data['images']} images: {escape(str(folder / 'images.txt'))}"
    console.print(f"{len(summary.repos)} repositories, {images}", soft_wrap=True)
