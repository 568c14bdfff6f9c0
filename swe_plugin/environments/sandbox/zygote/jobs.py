"""One command of `exec`, or one file operation: a confined child, its pipes, its deadline."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios
import time
from collections.abc import Callable
from typing import Any

from swe_plugin.environments.sandbox.zygote.output import OutputBuffer
from swe_plugin.environments.sandbox.zygote.processes import kill_tree

__all__ = ["Job", "drain", "exit_code", "pending_bytes", "read_some"]

CHUNK = 1 << 16
"""What a pipe holds."""


class Job:
    """A running child.

    Attributes:
        request: id of the request that it answers.
        pid: of the child, which is a subreaper: everything it starts stays below it.
        inputs, outputs: the supervisor's non-blocking ends of its pipes.
        operation: kind of a file operation, empty for a command.
        deadline: monotonic time after which it is killed.
    """

    def __init__(self, request: int, stdin: bytes, limit: int, timeout_s: float) -> None:
        self.request = request
        self.pid = 0
        self.operation = ""
        self.began = time.monotonic()
        self.deadline = self.began + timeout_s
        self.input_fd = -1
        self.outputs: dict[int, OutputBuffer] = {}
        self.stdout, self.stderr = OutputBuffer(limit), OutputBuffer(limit)
        self.timed_out = self.cancelled = False
        self._pending = memoryview(stdin)

    def feed(self) -> bool:
        """Write some more of stdin; False when all is written or the child does not want it."""
        try:
            self._pending = self._pending[os.write(self.input_fd, self._pending[:CHUNK]) :]
        except BlockingIOError:
            return True
        except BrokenPipeError:
            return False
        return bool(self._pending)

    def kill(self, *, timed_out: bool = False) -> None:
        """End its whole process tree. What it wrote so far stays in the buffers."""
        for fd, buffer in self.outputs.items():
            drain(fd, buffer)
        self.timed_out |= timed_out
        self.cancelled |= not timed_out
        self.deadline = float("inf")
        kill_tree(self.pid)

    def result(self, status: int) -> tuple[dict[str, Any], bytes]:
        """Header and payload (stdout, then stderr) of the answer."""
        stdout, cut_out = self.stdout.take()
        stderr, cut_err = self.stderr.take()
        header = {
            "id": self.request,
            "exit_code": -1 if self.timed_out else exit_code(status),
            "n_stdout": len(stdout),
            "duration_s": time.monotonic() - self.began,
            "timed_out": self.timed_out,
            "cancelled": self.cancelled,
            "truncated": bool(cut_out or cut_err),
        }
        return header, stdout + stderr


def spawn(child: Callable[[], None]) -> int:
    """Fork; the child runs `child`, which must not return.

    Raises:
        OSError: no process can be made.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        child()
    except BaseException as error:
        os.write(2, f"sandbox: {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(126)


def exit_code(status: int) -> int:
    """A wait status as a shell reports it: 128 + n for signal n."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def pending_bytes(fd: int) -> int:
    """Bytes that can be read from a pipe now."""
    return int(struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"))[0])


def read_some(fd: int) -> bytes | None:
    """Up to one chunk; None if nothing is there yet, empty at the end."""
    try:
        return os.read(fd, CHUNK)
    except BlockingIOError:
        return None


def drain(fd: int, buffer: OutputBuffer) -> None:
    """Read what is in the pipe now, and no more: a background process may go on writing for ever."""
    left = pending_bytes(fd)
    while left > 0 and (data := read_some(fd)):
        buffer.add(data)
        left -= len(data)


def ignore_signals() -> None:
    """Ctrl-C and friends are the owner's business; PID 1 ends when its socket closes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
