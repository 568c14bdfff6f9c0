"""The persistent bash of a sandbox.

bash reads commands from a pipe and writes stdout and stderr to another. Each script is sent as two lines::

    eval '<script>' </dev/null 201>&-
    builtin printf '%s %s %s\\0' <number> "$?" "$PWD" >&201

The second line reports on descriptor 201, which the script does not have. The number tells its report from
those of earlier commands that were given up. A script can still forge a report (through bash's saved copy of
201); it then only deceives its own session, and grading never uses one.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from swe_plugin.environments.sandbox.zygote.jobs import drain, exit_code, read_some
from swe_plugin.environments.sandbox.zygote.output import OutputBuffer
from swe_plugin.environments.sandbox.zygote.processes import Process, descendants, has_children, kill_tree

__all__ = ["ARGV", "SETUP", "STATUS_FD", "Session"]

ARGV = ["bash", "--noprofile", "--norc", "--noediting", "-i"]
"""Interactive, so that failed expansions, a failed `exec` or SIGINT do not end it; line editing needs a terminal.

Such a bash adjusts "its terminal" whenever a command dies by a signal, and complains if there is none. It takes
for its terminal what stderr is when it starts: a pseudo-terminal that nobody uses and that controls nothing.
"""
STATUS_FD = 201
SETUP = -1
"""Request id of a bash that is being replaced: nobody waits for that answer."""

_SETUP = "exec 2>&1; unset PROMPT_COMMAND MAILCHECK HISTFILE; PS1= PS2=; set +o history +H; shopt -u checkwinsize\n"
_REPORT = 'builtin printf \'%s %s %s\\0\' {number} "$?" "$PWD" >&201\n'
_MAX_REPORT = 1 << 16
_MAX_CODE = 3
"""Digits of an exit code."""
_INTERRUPT_S = 0.5
"""Time a bash that is told to give a command up has to report before it is replaced."""
_INTERRUPT_EVERY_S = 0.05


class Session:
    """One bash process and at most one running script.

    Args:
        limit: bytes of output kept per script.

    Attributes:
        pid: of bash; 0 while there is none.
        cwd: where bash was after the last completed script; a new bash starts there.
        request: id of the running script's request (or `SETUP`), None when bash waits for one.
        deadline: monotonic time of the next thing to do about a script that runs too long.
        pending: bytes that bash has not read yet.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.pid = 0
        self.input_fd = self.output_fd = self.status_fd = -1
        self.cwd = ""
        self.output = OutputBuffer(limit)
        self.request: int | None = None
        self.deadline = float("inf")
        self.timed_out = self.cancelled = False
        self.pending = b""
        self._number = 0
        self._reports = bytearray()
        self._began = 0.0
        self._give_up_at = float("inf")
        self._before: set[Process] = set()
        self._starting = self._syncing = self._interrupted = False

    @property
    def starting(self) -> bool:
        """Bash has not reported since it was opened."""
        return self._starting

    @property
    def descriptors(self) -> tuple[int, int, int]:
        """Of the supervisor's ends of bash's pipes."""
        return self.input_fd, self.output_fd, self.status_fd

    def opened(self, request: int, pid: int, input_fd: int, output_fd: int, status_fd: int, timeout_s: float) -> None:
        """A new bash runs. `request` is answered when it has read its set-up; what it says until then is dropped."""
        self.pid, self.input_fd, self.output_fd, self.status_fd = pid, input_fd, output_fd, status_fd
        self._reports.clear()
        self._start(request, timeout_s)
        self._starting = True
        self.pending = (_SETUP + _REPORT.format(number=self._number)).encode()

    def begin(self, request: int, script: str, timeout_s: float) -> None:
        """Send a script to a ready bash."""
        drain(self.output_fd, self.output)  # what background jobs wrote since the last command comes first
        self._start(request, timeout_s)
        self._before = descendants(self.pid) if has_children(self.pid) else set()
        quoted = script.replace("\0", "").replace("'", "'\\''")
        text = f"eval '{quoted}' </dev/null 201>&-\n" + _REPORT.format(number=self._number)
        self.pending = text.encode(errors="surrogateescape")

    def _start(self, request: int, timeout_s: float) -> None:
        self._number += 1
        self.request = request
        self._began = time.monotonic()
        self.deadline = self._began + timeout_s
        self.timed_out = self.cancelled = False
        self._give_up_at = float("inf")

    def read_output(self) -> bool:
        """Take what bash and its children wrote; False at the end of the pipe."""
        data = read_some(self.output_fd)
        if data and not (self.timed_out or self.cancelled):
            self.output.add(data)
        return data != b""

    def read_reports(self) -> int | None:
        """Exit code of the running script, if its report has come."""
        data = read_some(self.status_fd)
        self._reports += data or b""
        *records, rest = bytes(self._reports).split(b"\0")
        self._reports = bytearray(rest[-_MAX_REPORT:])
        for record in records:
            number, _, tail = record.partition(b" ")
            code, _, cwd = tail.partition(b" ")
            plausible = code.isdigit() and len(code) <= _MAX_CODE  # a forged one must not end the supervisor
            if number == b"%d" % self._number and plausible and self.request is not None:
                self.cwd = cwd.decode(errors="surrogateescape")
                return int(code) & 0xFF
        return None

    def give_up(self, *, timed_out: bool) -> None:
        """End the running script: its processes now, bash itself only if it does not come back."""
        if self.timed_out or self.cancelled:
            return
        drain(self.output_fd, self.output)
        self.timed_out, self.cancelled = timed_out, not timed_out
        self._give_up_at = time.monotonic() + _INTERRUPT_S
        self.deadline = time.monotonic() + _INTERRUPT_EVERY_S
        kill_tree(self.pid, spare=self._before, with_root=False)

    def on_deadline(self) -> None:
        """The time of `deadline` has come: end the script, press harder, or replace bash."""
        if not (self.timed_out or self.cancelled or self._syncing):
            self.give_up(timed_out=True)
            return
        over = time.monotonic() >= self._give_up_at
        self.deadline = float("inf") if over else time.monotonic() + _INTERRUPT_EVERY_S
        kill_tree(self.pid, spare=self._before, with_root=over)
        if not over and self._syncing:
            self.pending += _REPORT.format(number=self._number).encode()
        elif not over:
            self._interrupted = True
            os.kill(self.pid, signal.SIGINT)

    def needs_sync(self) -> bool:
        """Whether SIGINT may still be on its way; a script sent now could lose its report to it."""
        return self._interrupted and bool(self.pid)

    def sync(self) -> None:
        """Ask for an extra report, which proves that bash has seen every signal; what it says until then is dropped."""
        self._start(SETUP, _INTERRUPT_EVERY_S)
        self._syncing, self._interrupted = True, False
        self._give_up_at = time.monotonic() + _INTERRUPT_S
        self.pending = _REPORT.format(number=self._number).encode()

    def finish(self, code: int) -> tuple[dict[str, Any], bytes]:
        """Answer of the running script; the session is ready for the next one."""
        drain(self.output_fd, OutputBuffer(0) if self.timed_out or self.cancelled else self.output)
        if (self._starting or self._syncing) and self.pid:
            self.output = OutputBuffer(self.limit)  # nobody asked for it
        self._starting = self._syncing = False
        stdout, dropped = self.output.take()
        header = {
            "id": self.request,
            "exit_code": -1 if self.timed_out else code,
            "n_stdout": len(stdout),
            "duration_s": time.monotonic() - self._began,
            "timed_out": self.timed_out,
            "cancelled": self.cancelled,
            "truncated": bool(dropped),
        }
        self.output = OutputBuffer(self.limit)
        self.request, self.deadline = None, float("inf")
        self.timed_out = self.cancelled = False
        return header, stdout

    def died(self, status: int) -> int:
        """Bash is gone; its descriptors are to be closed by the caller. Returns its exit code."""
        self.pid = 0
        self.pending = b""
        self._interrupted = False
        return exit_code(status)
