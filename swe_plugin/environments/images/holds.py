"""Locks on entries of the store: shared while they are used, exclusive while they are built or removed.

A lock is a ``flock`` on a file of its own, so the kernel drops it when its holder dies, however it dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

__all__ = ["hold", "let_go", "try_exclusive"]

_mutex = threading.Lock()
_held: dict[Path, tuple[int, int]] = {}
"""Lock file -> descriptor and how often this process holds it."""


def hold(lock: Path) -> None:
    """Keep others from removing what `lock` stands for, until `let_go`. Waits for a builder. Blocking, counted."""
    with _mutex:
        if lock in _held:
            fd, count = _held[lock]
            _held[lock] = fd, count + 1
            return
    fd = _open(lock, fcntl.LOCK_SH)
    with _mutex:
        if lock in _held:  # another thread was faster
            os.close(fd)
            fd, count = _held[lock]
            _held[lock] = fd, count + 1
        else:
            _held[lock] = fd, 1


def let_go(lock: Path) -> None:
    """Undo one `hold`. Not an error if there is none (a forked child holds nothing)."""
    with _mutex:
        fd, count = _held.get(lock, (-1, 0))
        if count > 1:
            _held[lock] = fd, count - 1
        elif count == 1:
            del _held[lock]
            _close(fd)


@contextlib.contextmanager
def try_exclusive(lock: Path) -> Iterator[bool]:
    """Alone with what `lock` stands for, unless anybody has it, this process too; whether it worked. Never waits."""
    try:
        fd = _open(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
        return
    try:
        yield True
    finally:
        _close(fd)


def _open(lock: Path, how: int) -> int:
    while True:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, how)
            if os.fstat(fd).st_nlink:  # else whoever removed the entry removed the file, too
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def _close(fd: int) -> None:
    """Unlock and close: a child that was forked a moment ago may still share the open file, and its lock."""
    fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


def _forget_in_child() -> None:
    """A forked child shares the locks' open files: it must let go, or they would outlive their owner."""
    global _mutex
    _mutex = threading.Lock()
    for fd, _ in _held.values():
        os.close(fd)
    _held.clear()


os.register_at_fork(after_in_child=_forget_in_child)
