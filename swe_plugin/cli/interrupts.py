"""Ctrl-C and SIGTERM end a coroutine the same way: cancelled, with everything it started gone."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from swe_plugin.cli.commands.options import fail
from swe_plugin.errors import SwePluginError

__all__ = ["INTERRUPTED", "TERMINATED", "run_command"]

INTERRUPTED, TERMINATED = 130, 143
"""Exit codes, as shells give them: 128 and the signal's number."""
Result = TypeVar("Result")


def run_command(work: Coroutine[Any, Any, Result], *, stopped: str = "stopped; nothing is left") -> Result:
    """Run the work of a command and turn what ends it into one line and an exit code.

    Args:
        work: raises `SwePluginError` for what the user can mend; its own `finally` blocks leave nothing behind.
        stopped: said after Ctrl-C or SIGTERM.

    Raises:
        typer.Exit: 2 for a `SwePluginError`, 130 after Ctrl-C, 143 after SIGTERM.
    """
    try:
        return asyncio.run(_terminable(work))
    except SwePluginError as error:
        fail(error)
    except KeyboardInterrupt:
        fail(stopped, INTERRUPTED)
    except asyncio.CancelledError:
        fail(stopped, TERMINATED)


async def _terminable(work: Coroutine[Any, Any, Result]) -> Result:
    with _termination_cancels():
        return await work


@contextmanager
def _termination_cancels() -> Iterator[None]:
    """SIGTERM cancels the current task, as Ctrl-C does."""
    loop, current = asyncio.get_running_loop(), asyncio.current_task()
    assert current is not None
    loop.add_signal_handler(signal.SIGTERM, current.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
