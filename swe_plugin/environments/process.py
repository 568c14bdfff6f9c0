"""One process of this machine as an `ExecResult`: what a backend that drives a command line needs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import IO

from swe_plugin.types import ExecResult

__all__ = ["run_process"]


async def run_process(
    argv: Sequence[str],
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 60.0,
    stdin: bytes = b"",
    output_bytes: int = 1 << 20,
) -> ExecResult:
    """Run a program to its end; after it, after `timeout_s` or a cancellation nothing of its process group runs.

    Args:
        argv: program and arguments, no shell involved.
        cwd: directory; default this process's.
        env: all of its environment variables; default this process's.
        timeout_s: wall-clock limit; what it printed until then is kept.
        stdin: fed, then closed.
        output_bytes: kept of each stream; the middle is dropped beyond it.

    Returns:
        As a shell reports it: 126 or 127 for a program that cannot be started, 128 + n for signal n.
    """
    began = time.perf_counter()
    # Files, not pipes: what a process leaves running cannot keep them open, and memory does not grow with them.
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        source.write(stdin)
        source.seek(0)
        try:
            process = subprocess.Popen(  # noqa: ASYNC220 (vfork: a millisecond, and it cannot be cancelled half-way)
                argv, cwd=cwd, env=env, stdin=source, stdout=out, stderr=err, start_new_session=True
            )
        except OSError as error:
            code = 127 if isinstance(error, FileNotFoundError) else 126
            return ExecResult("", f"{argv[0]}: {error.strerror}\n", code)
        timed_out = False
        try:
            async with asyncio.timeout(timeout_s):
                await _end_of(process.pid)
        except TimeoutError:
            timed_out = True
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        (stdout, cut), (stderr, cut_too) = _ends(out, output_bytes), _ends(err, output_bytes)
        took = time.perf_counter() - began
        return ExecResult(stdout, stderr, -1 if timed_out else code, took, timed_out, cut or cut_too)


async def _end_of(pid: int) -> None:
    """Wait for a child without a thread: there are few, and a command that queues for one would outlast its limit."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    descriptor = os.pidfd_open(pid)
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _ends(file: IO[bytes], limit: int) -> tuple[str, bool]:
    """A file's text, its middle left out if it is longer than `limit` bytes; whether it is."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size <= limit:
        return file.read().decode(errors="replace"), False
    head = file.read(limit // 2)
    file.seek(size - (limit - len(head)))
    return (head + file.read()).decode(errors="replace"), True
