"""A child process and everything below it: stopped cleanly when asked, killed when not, nothing left either way."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO

import psutil

__all__ = ["ChildTree"]

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


class ChildTree:
    """A command in its own session, so that a Ctrl-C at the terminal reaches only us.

    This process becomes a subreaper: what the command starts and orphans (Ray's daemons) stays our descendant,
    so that `end` finds all of it. If we die ourselves, the kernel asks the command to stop.
    """

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], output: IO[bytes]) -> None:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self.process = subprocess.Popen(
            argv,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: _prctl(_PR_SET_PDEATHSIG, signal.SIGINT),
        )

    def wait(self, timeout_s: float) -> int | None:
        """Exit code as a shell would show it, or None while it runs."""
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        return 128 - code if code < 0 else code

    def interrupt(self) -> None:
        """Ask the command to stop: it alone gets the signal and takes its own children down."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Kill the command and all its descendants at once."""
        for process in self._descendants():
            process.kill()

    def end(self, grace_s: float) -> int:
        """After the command ended: wait for its descendants, then end those that stay.

        Returns:
            How many had to be killed.
        """
        psutil.wait_procs(self._descendants(), timeout=grace_s)
        for process in self._descendants():
            process.terminate()
        psutil.wait_procs(self._descendants(), timeout=grace_s)
        killed = 0
        for _ in range(3):  # a process may have forked while it was being killed
            remaining = self._descendants()
            killed += len(remaining)
            for process in remaining:
                process.kill()
            psutil.wait_procs(remaining, timeout=5)
        return killed

    def _descendants(self) -> list[psutil.Process]:
        """Living descendants of this process; reaps the dead ones that were handed to us."""
        found = []
        for process in psutil.Process().children(recursive=True):
            try:
                zombie = process.status() == psutil.STATUS_ZOMBIE
            except psutil.NoSuchProcess:
                continue
            if not zombie:
                found.append(process)
            elif process.pid != self.process.pid and process.ppid() == os.getpid():
                os.waitpid(process.pid, os.WNOHANG)
        return found
