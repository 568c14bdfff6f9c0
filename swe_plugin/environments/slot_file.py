"""`SlotFile`: locks that all processes of a node share, and that the kernel drops when their holder dies.

A slot is a locked byte of a file that has none. The lock belongs to an open file, not to a process: it can be sent to
another process over a socket, and it is gone when the last descriptor of it is closed, also by ``kill -9``. Closing
is what inotify tells those who wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import logging
import os
import socket
import struct
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from swe_plugin.environments.home import home
from swe_plugin.environments.removal import remove_tree

__all__ = ["Slot", "SlotFile", "pool_directory", "remove_unused_pools"]

logger = logging.getLogger(__name__)

_FLOCK = struct.Struct("hhqqi4x")
_IN_CLOSE_WRITE = 8
_LOOK_AGAIN_S = 1.0
"""A change that no event tells (somebody stopped waiting, no inotify left) is seen after it."""
_PRESENT = 1 << 40
"""A byte that everybody who has the file open holds a shared lock on."""
_NAME = "slots"
_libc = ctypes.CDLL(None, use_errno=True)
_open: weakref.WeakSet[Slot | SlotFile] = weakref.WeakSet()


def pool_directory(scope: str) -> Path:
    """Directory that the pools of one run share on this node. Per host name, because homes may be shared."""
    return home() / "pools" / socket.gethostname() / scope


class Slot:
    """One unit of a capacity. Usable as ``with``.

    Args:
        fd: of the locked open file; owned by the slot from now on.
        on_leave: called when this process has it no longer.
    """

    def __init__(self, fd: int, on_leave: Callable[[], object] = lambda: None) -> None:
        self._fd, self._on_leave = fd, on_leave
        _open.add(self)

    def __enter__(self) -> None:
        return

    def __exit__(self, *error: object) -> None:
        self.release()

    def fileno(self) -> int:
        """The descriptor, to send it to another process."""
        return self._fd

    def release(self) -> None:
        """Let it go. Idempotent."""
        if self._fd >= 0:
            _lock(self._fd, fcntl.F_UNLCK, 0, 0)  # a child forked a moment ago may still share the open file
            self.leave()

    def leave(self) -> None:
        """Close this process's descriptor; the slot stays with whoever else has one."""
        if self._fd >= 0:
            os.close(self._fd)
            self._on_leave()
        self._fd = -1


class SlotFile:
    """A file of locks, opened on first use.

    Args:
        directory: where the processes of a node find it; None for one that is this object's alone.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._fd = self._spare = self._inotify = -1
        self._mine: set[int] = set()
        """Need not be tried: with a thousand slots that is what a look would cost."""
        self._waiting: dict[Callable[[], object], None] = {}
        self._timer: asyncio.TimerHandle | None = None
        _open.add(self)

    def open(self) -> None:
        """Be present: the directory exists until `leave`. Idempotent."""
        if self._fd < 0:
            directory = self._directory
            self._fd = os.memfd_create("swe-slots") if directory is None else _open_present(directory)

    def leave(self) -> None:
        """Close it; slots that were taken stay, and it can be used again. Idempotent."""
        for fd in {self._fd, self._spare, self._inotify} - {-1}:
            os.close(fd)
        self._fd = self._spare = self._inotify = -1

    def take(self, numbers: Iterable[int]) -> Slot | None:
        """Lock the first of `numbers` that nobody has."""
        if self._spare < 0:
            self._spare = os.open(self._name(), os.O_RDWR | os.O_CLOEXEC)
        for number in numbers:
            if number not in self._mine and _lock(self._spare, fcntl.F_WRLCK, number):
                self._mine.add(number)
                slot, self._spare = (
                    Slot(self._spare, partial(self._mine.discard, number)),
                    -1,
                )  # else it is kept: closing it would wake everybody
                return slot
        return None

    def mark(self, number: int, on: bool) -> None:
        """Hold a shared lock of this object, or let go of it. A file that is not open has none to let go of."""
        if self._fd < 0 and not on:
            return
        _lock(self._file(), fcntl.F_RDLCK if on else fcntl.F_UNLCK, number)

    def is_taken(self, number: int) -> bool:
        """Somebody else, slots that were taken through this object included, has a lock of `number`."""
        answer = fcntl.fcntl(self._file(), fcntl.F_OFD_GETLK, _FLOCK.pack(fcntl.F_WRLCK, 0, number, 1, 0))
        return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)

    def watch(self, look: Callable[[], object]) -> None:
        """Call `look` whenever a slot may have become free, on the running event loop, until `unwatch`."""
        if not self._waiting:
            self._start_watching()
        self._waiting[look] = None

    def unwatch(self, look: Callable[[], object]) -> None:
        """End `watch`. Not an error if it was never called."""
        if self._waiting.pop(look, self) is None and not self._waiting:
            assert self._timer is not None
            self._timer.cancel()
            if self._inotify >= 0:
                asyncio.get_running_loop().remove_reader(self._inotify)

    def _file(self) -> int:
        self.open()
        return self._fd

    def _name(self) -> str:
        """By which the file can be opened again, as another open file with locks of its own."""
        return f"/proc/self/fd/{self._file()}"

    def _start_watching(self) -> None:
        if self._inotify < 0:
            self._inotify = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if self._inotify < 0 or _libc.inotify_add_watch(self._inotify, self._name().encode(), _IN_CLOSE_WRITE) < 0:
                logger.warning("no inotify (%s): slots are looked for every second", os.strerror(ctypes.get_errno()))
        if self._inotify >= 0:
            asyncio.get_running_loop().add_reader(self._inotify, self._woken)
        self._tick()

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._inotify, 1 << 16)
        for look in list(self._waiting):
            look()

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_LOOK_AGAIN_S, self._tick)
        for look in list(self._waiting):
            look()


def remove_unused_pools() -> None:
    """Remove the directories of runs that no process of this node works for any more. Blocking."""
    for directory in pool_directory("x").parent.glob("*"):
        with contextlib.suppress(FileNotFoundError):
            fd = os.open(directory / _NAME, os.O_RDWR | os.O_CLOEXEC)
            try:
                if _lock(fd, fcntl.F_WRLCK, 0, 0):
                    remove_tree(directory)
            finally:
                os.close(fd)


def _open_present(directory: Path) -> int:
    while True:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            fd = os.open(directory / _NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue  # removed meanwhile, as unused
        fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, _FLOCK.pack(fcntl.F_RDLCK, 0, _PRESENT, 1, 0))
        if os.fstat(fd).st_nlink:
            return fd
        os.close(fd)


def _lock(fd: int, kind: int, start: int, length: int = 1) -> bool:
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, 0, start, length, 0))
    except BlockingIOError:
        return False
    return True


def _leave_in_child() -> None:
    """A forked child shares the open files: it must let go, or the slots would outlive their holder."""
    for holder in list(_open):
        holder.leave()


os.register_at_fork(after_in_child=_leave_in_child)
