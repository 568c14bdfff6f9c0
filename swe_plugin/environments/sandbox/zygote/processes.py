"""Process trees as /proc shows them, and how to end them."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Iterable, Iterator

__all__ = ["descendants", "has_children", "kill_everything", "kill_tree", "snapshot", "usage"]

_PASSES = 6
"""Passes over a tree that still grows, before it counts as a fork bomb; an ordinary one is stopped in two."""

Process = tuple[int, int]
"""Process id and start time in clock ticks: together unique while the sandbox lives."""


def snapshot() -> dict[Process, int]:
    """All processes in sight: identity -> parent's process id."""
    return {(pid, int(fields[19])): int(fields[1]) for pid, fields in _stats()}


def usage() -> tuple[float, int]:
    """CPU seconds so far, and resident bytes now, of all processes in sight, dead ones' seconds included; those of
    PID 1 itself, the caller, are left out. Largest of a dead process where that is more."""
    ticks = pages = 0
    for pid, fields in _stats():
        ticks += sum(int(fields[place]) for place in ((11, 12, 13, 14) if pid != 1 else (13, 14)))
        pages += int(fields[21]) if pid != 1 else 0
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return ticks / os.sysconf("SC_CLK_TCK"), max(pages * os.sysconf("SC_PAGE_SIZE"), largest)


def _stats() -> Iterator[tuple[int, list[bytes]]]:
    """Process id and the fields of ``/proc/<pid>/stat`` after the name (proc(5): the first is its field 3)."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                fd = os.open(f"/proc/{name}/stat", os.O_RDONLY)
                try:
                    text = os.read(fd, 1024)
                finally:
                    os.close(fd)
                yield int(name), text[text.rindex(b")") + 2 :].split()


def has_children(pid: int) -> bool:
    """Whether a process of one thread has any; in doubt it has."""
    try:
        fd = os.open(f"/proc/{pid}/task/{pid}/children", os.O_RDONLY)
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        return True
    try:
        return bool(os.read(fd, 1))
    finally:
        os.close(fd)


def descendants(root: int, table: dict[Process, int] | None = None) -> set[Process]:
    """All processes below `root`, without it."""
    table = snapshot() if table is None else table
    children: dict[int, list[Process]] = {}
    for process, parent in table.items():
        children.setdefault(parent, []).append(process)
    found: set[Process] = set()
    queue = [root]
    while queue:
        for process in children.get(queue.pop(), ()):
            if process not in found:
                found.add(process)
                queue.append(process[0])
    return found


def kill_tree(root: int, *, spare: Iterable[Process] = (), with_root: bool = True) -> None:
    """SIGKILL what runs below `root`, and `root` itself.

    Works because `root` is a child subreaper: orphans of its tree come back to it instead of escaping. All
    are stopped first, so that none can fork while it is being killed. A tree that keeps growing is ended by
    `kill_everything`.

    Args:
        root: process id, a child of the caller.
        spare: processes that were there before and live on.
        with_root: kill `root` as well.
    """
    spared = set(spare)
    passes = 0
    stopped: set[Process] = set()
    if with_root:
        _signal(root, signal.SIGSTOP)
    while fresh := descendants(root) - spared - stopped:
        for pid, _ in fresh:
            _signal(pid, signal.SIGSTOP)
        stopped |= fresh
        passes += 1
        if passes > _PASSES:
            kill_everything()
            return
    for pid, _ in stopped:
        _signal(pid, signal.SIGKILL)
    if with_root:
        _signal(root, signal.SIGKILL)


def kill_everything() -> None:
    """SIGKILL every process of this PID namespace but the caller, in one step that no fork can outrun."""
    if os.getpid() == 1:
        _signal(-1, signal.SIGKILL)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
