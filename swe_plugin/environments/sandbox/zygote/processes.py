"""Process trees as /proc shows them, and how to end them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable

__all__ = ["descendants", "kill_everything", "kill_tree", "snapshot"]

_PASSES = 6
"""Passes over a tree that still grows, before it counts as a fork bomb; an ordinary one is stopped in two."""

Process = tuple[int, int]
"""Process id and start time in clock ticks: together unique while the sandbox lives."""


def snapshot() -> dict[Process, int]:
    """All processes in sight: identity -> parent's process id."""
    found: dict[Process, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                fd = os.open(f"/proc/{name}/stat", os.O_RDONLY)
                try:
                    text = os.read(fd, 1024)
                finally:
                    os.close(fd)
                fields = text[text.rindex(b")") + 2 :].split()
                found[int(name), int(fields[19])] = int(fields[1])
    return found


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
