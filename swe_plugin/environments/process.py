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
from typing import Self

from swe_plugin.environments.sandbox.zygote.output import OutputBuffer
from swe_plugin.types import ExecResult

__all__ = ["run_process"]

_PIPE_BYTES = 1 << 20
"""At least what a pipe holds."""


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
        env: all of its environment variables; default ``PATH`` alone: this process's may carry tokens.
        timeout_s: wall-clock limit; what it printed until then is kept.
        stdin: fed, then closed.
        output_bytes: kept of each stream; the middle is dropped beyond it.

    Returns:
        As a shell reports it: 126 or 127 for a program that cannot be started, 128 + n for signal n.
    """
    began = time.perf_counter()
    env = {"PATH": os.environ.get("PATH", os.defpath)} if env is None else env
    with tempfile.TemporaryFile() as source, _Pipe(output_bytes) as out, _Pipe(output_bytes) as err:
        source.write(stdin)
        source.seek(0)
        try:
            process = subprocess.Popen(  # noqa: ASYNC220 (vfork: a millisecond, and it cannot be cancelled half-way)
                argv, cwd=cwd, env=env, stdin=source, stdout=out.write_end, stderr=err.write_end, start_new_session=True
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
        (stdout, cut), (stderr, cut_too) = out.take(), err.take()
        took = time.perf_counter() - began
        return ExecResult(stdout, stderr, -1 if timed_out else code, took, timed_out, cut or cut_too)


class _Pipe:
    """One stream, read as it is written; whoever still has it open at the end is not waited for."""

    def __init__(self, limit: int) -> None:
        self._kept = OutputBuffer(limit)
        self._end, self.write_end = os.pipe()
        os.set_blocking(self._end, False)

    def __enter__(self) -> Self:
        asyncio.get_running_loop().add_reader(self._end, self._read)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._end)
        os.close(self._end)
        os.close(self.write_end)

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._kept.add(os.read(self._end, _PIPE_BYTES))

    def take(self) -> tuple[str, bool]:
        """Its text, the middle left out if it was too long; whether it was."""
        self._read()  # what is in the pipe is all that an ended process can have left
        text, dropped = self._kept.take()
        return text.decode(errors="replace"), bool(dropped)


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
