"""Moments in the start of a sandbox, written by every process that takes part into shared files.

A mark is a function and which end of its call counts; a process wraps the functions it has. Standard library only, and
of `swe_plugin` the zygote alone, which imports this.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import mmap
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROWS = 1 << 12
Mark = tuple[str, str, str, str]
"""The phase that ends with it, module, function, which end of its call."""
AHEAD: list[Mark] = [
    ("fork with a PID namespace", "build", "_prepare", "before"),
    ("signals, oom score", "build", "_other_namespaces", "before"),
    ("mount, net, UTS, IPC, cgroup namespaces", "build", "lay_out", "before"),
    ("tmpfs", "mounts", "_devices", "before"),
    ("/dev", "mounts", "_devices", "after"),
    ("/proc", "mounts", "_mask_proc", "before"),
    ("/proc masked", "mounts", "_mask_proc", "after"),
    ("host name, loopback", "build", "_rehearse", "before"),
    ("rehearsal", "build", "_prepare", "after"),
]
CHAIN: list[Mark] = [
    ("owner: image, plan, socket", "owner", "request", "before"),
    ("request to zygote", "server", "_Zygote._start", "before"),
    ("a spare gets it and the plan", "build", "receive_plan", "after"),
    ("cgroups made, limits written", "cgroups", "open_members", "after"),
    ("layers opened, tmpfs bounded", "mounts", "_overlay", "before"),
    ("overlay", "mounts", "_overlay", "after"),
    ("/dev, /proc, /tmp moved, pivot", "build", "enter_root", "after"),
    ("image checked", "build", "_harden", "before"),
    ("capabilities, filter", "build", "_harden", "after"),
    ("supervisor, terminal, pipes", "supervisor", "spawn", "before"),
    ("fork of the agent's process", "supervisor", "Supervisor._child", "before"),
    ("agent's cgroup, limits, identity", "confine", "execute", "before"),
    ("bash: exec to first report", "supervisor", "Supervisor._on_report", "before"),
    ("answer to owner", "owner", "start", "after"),
    ("first command sent", "supervisor", "Supervisor._shell", "before"),
    ("process table, bash's answer", "supervisor", "Session.finish", "after"),
    ("answer to owner", "owner", "shell", "after"),
]
_ROW = struct.Struct(f"{1 + max(len(CHAIN), len(AHEAD))}q")
_ZYGOTE = "swe_plugin.environments.sandbox.zygote."


class Marks:
    """A shared file of moments, one row for each sandbox.

    Args:
        path: of the file, made if it is not there.
        chain: the columns, from 1; column 0 is the beginning.
    """

    def __init__(self, path: Path, chain: list[Mark]) -> None:
        with path.open("a+b") as file:
            file.truncate(ROWS * _ROW.size)
            self._memory = mmap.mmap(file.fileno(), ROWS * _ROW.size)
        self._chain = chain
        self.row = 0

    def stamp(self, column: int, row: int | None = None, when: int = 0, *, again: bool = False) -> None:
        """A mark is reached, now or at `when`; the first time counts, or the last where it may come `again`."""
        place = ((self.row if row is None else row) % ROWS) * _ROW.size + 8 * column
        if again or not any(self._memory[place : place + 8]):
            self._memory[place : place + 8] = struct.pack("q", when or time.monotonic_ns())

    def clear(self) -> None:
        """Forget all."""
        self._memory[:] = bytes(len(self._memory))

    def rows(self) -> Iterator[list[int]]:
        """Nanoseconds of each phase, of each sandbox that has all marks."""
        for row in _ROW.iter_unpack(self._memory):
            moments = row[: len(self._chain) + 1]
            if all(moments):
                yield [after - before for before, after in itertools.pairwise(moments)]

    def watch(self) -> None:
        """Wrap what runs in the zygote and its children."""
        for column, (_, module, name, end) in enumerate(self._chain, 1):
            if module != "owner":
                holder: Any = importlib.import_module(_ZYGOTE + module)
                *outer, name = name.split(".")
                for part in outer:
                    holder = getattr(holder, part)
                setattr(holder, name, self._wrapped(getattr(holder, name), column, end))

    def _wrapped(self, call: Callable[..., Any], column: int, end: str) -> Callable[..., Any]:
        @functools.wraps(call)
        def wrapper(*words: Any, **named: Any) -> Any:
            if call.__name__ == "_start":
                self.row = words[1]["id"]
            if end == "before":
                self.stamp(column)
            result = call(*words, **named)
            if call.__name__ == "receive_plan":  # a spare learns whose it is
                if not result.cgroups:
                    return result  # a rehearsal
                self.row = int(next(iter(result.cgroups.values())).rpartition("/")[2])
            if end == "after":
                self.stamp(column, again=True)
            return result

        return wrapper


def watch_zygote(top: Path) -> None:
    """Watch both chains from a zygote that has not forked yet; the files are in `top`."""
    from swe_plugin.environments.sandbox.zygote import server

    Marks(top / "asked", CHAIN).watch()
    ahead = Marks(top / "ahead", AHEAD)
    ahead.watch()
    fork: Any = server._Zygote._fork

    def wrapper(*words: Any) -> Any:
        ahead.row += 1
        ahead.stamp(0)
        return fork(*words)

    server._Zygote._fork = wrapper  # type: ignore[method-assign]
