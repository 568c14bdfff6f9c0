"""Ranges of host ids for agents that are root inside, each with a user namespace that maps it."""

from __future__ import annotations

import errno
import itertools
import os
import socket
from dataclasses import dataclass

from swe_plugin.environments.sandbox.zygote import syscalls as sys_

__all__ = ["Range", "Ranges"]

_SIZE = 1 << 16
_FIRST, _COUNT = 0x7000_0000, 0x0FFE
"""Ids that nobody hands out: below what systemd keeps for foreign ids, above what it gives to containers."""
_STRANGERS = 0x8000_0000
"""Added to inside ids from `_SIZE` on, which some files of images have: else nobody inside could even delete them."""
_CAP_SYS_ADMIN = 21


@dataclass(frozen=True, slots=True)
class Range:
    """Host ids from `first` on, which are 0 to 65535 in the user namespace behind `namespace`."""

    first: int
    namespace: int


class Ranges:
    """Ranges that no running sandbox of this zygote has, kept for the next one; the first is drawn at random.

    Sandboxes of different zygotes may have the same. They cannot reach each other all the same, and share only what the
    kernel counts per user (inotify watches, pending signals).
    """

    def __init__(self) -> None:
        self._free: list[Range] = []
        self._numbers = itertools.count(int.from_bytes(os.urandom(2)))

    def take(self) -> Range:
        """A range for one sandbox at a time.

        Raises:
            OSError: none can be made here.
        """
        return self._free.pop() if self._free else _make(_FIRST + _SIZE * (next(self._numbers) % _COUNT))

    def give_back(self, used: Range) -> None:
        """No process of the sandbox is left."""
        self._free.append(used)


def _make(first: int) -> Range:
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        _hold_namespace(theirs, first)
    theirs.close()
    with ours:
        try:
            failed = ours.recv(16)
            if failed != b"0":
                code = int(failed or errno.ESRCH)
                raise OSError(code, f"user namespace for host ids from {first}: {os.strerror(code)}")
            for name in ("uid_map", "gid_map"):
                with open(f"/proc/{pid}/{name}", "w") as table:
                    table.write(f"0 {first} {_SIZE}\n{_SIZE} {_STRANGERS + _SIZE} {_FIRST - _SIZE}\n")
            return Range(first, os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC))
        finally:
            ours.shutdown(socket.SHUT_RDWR)  # ends the other
            os.waitpid(pid, 0)


def _hold_namespace(end: socket.socket, first: int) -> None:
    """Make the namespace, owned by the first id of its range, and live until the zygote has it or is gone.

    Not owned by root: what the kernel counts per user would be charged to root.
    """
    code = 0
    try:
        os.setegid(first)
        os.seteuid(first)
        sys_.drop_capabilities(1 << _CAP_SYS_ADMIN)  # effective again: some kernels ask for it
        sys_.unshare(sys_.CLONE_NEWUSER)
    except OSError as error:
        code = error.errno or errno.EPERM
    finally:
        end.send(str(code).encode())
        end.recv(1)
        os._exit(0)
