"""The command line: `swe-plugin train | report | plugins | recipes | clean | version`.

Light on purpose: a command imports what it needs when it runs, and verl only ever runs as a child process.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Entry point of the `swe-plugin` script."""
    from swe_plugin.cli.app import build_app

    build_app()()
