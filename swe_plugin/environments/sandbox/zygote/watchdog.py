"""Bounds on memory and processes where no cgroup holds them: a look around a few times a second.

Weaker than a cgroup (a process can grow between two looks) and said so in the probe's report; resource limits
bound each single process meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

from swe_plugin.environments.sandbox.zygote.plan import Plan
from swe_plugin.environments.sandbox.zygote.processes import kill_everything

__all__ = ["Watchdog"]

_EVERY_S = 0.2
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Watchdog:
    """Does nothing for limits that a cgroup holds."""

    def __init__(self, plan: Plan) -> None:
        self._memory = 0 if "memory" in plan.cgroups else plan.memory_bytes
        self._pids = 0 if "pids" in plan.cgroups else plan.pids
        self.deadline = time.monotonic() if self._memory or self._pids else float("inf")

    def look(self) -> None:
        """Kill the largest process if memory is over the limit, everything if there are too many processes."""
        self.deadline = time.monotonic() + _EVERY_S
        private = {pid: size for pid in _processes() if (size := _private_bytes(pid))}
        if self._pids and len(private) > self._pids:
            kill_everything()
        elif self._memory and private and sum(private.values()) + _written_bytes() > self._memory:
            with contextlib.suppress(ProcessLookupError):
                os.kill(max(private, key=lambda pid: private[pid]), signal.SIGKILL)


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]


def _private_bytes(pid: int) -> int:
    """Resident memory that is not shared with a file."""
    with contextlib.suppress(OSError, ValueError):
        fd = os.open(f"/proc/{pid}/statm", os.O_RDONLY)
        try:
            _, resident, shared, *_ = os.read(fd, 256).split()
        finally:
            os.close(fd)
        return (int(resident) - int(shared)) * _PAGE
    return 0


def _written_bytes() -> int:
    """Bytes in the tmpfs that holds everything written in the sandbox."""
    info = os.statvfs("/tmp")  # noqa: S108 - the sandbox's own
    return (info.f_blocks - info.f_bfree) * info.f_frsize
