"""What a trial sandbox checks from inside: that the file system behaves and that forbidden calls are refused."""

from __future__ import annotations

import ctypes
import errno
import os
import socket

from swe_plugin.environments.sandbox.zygote import confine
from swe_plugin.environments.sandbox.zygote import syscalls as sys_
from swe_plugin.environments.sandbox.zygote.jobs import spawn
from swe_plugin.environments.sandbox.zygote.plan import Plan

__all__ = ["run_trial"]

_AF_VSOCK = 40
_CLONE_NEWUSER = 0x10000000


def run_trial(plan: Plan, cgroup_fds: list[int], seccomp: bytes) -> None:
    """Run all checks; the working directory of the trial layer holds ``file`` and ``dir/inner``.

    Raises:
        OSError: something does not work or does not hold; the message says what.
    """
    os.chdir(plan.workdir)
    _overlay()
    with open("/proc/self/stat") as stat:
        if stat.read(2) != "1 ":
            raise OSError(errno.EINVAL, "proc: shows another PID namespace")
    read_end, write_end = os.pipe()

    def child() -> None:
        for fd in cgroup_fds:
            os.write(fd, b"0")
        confine.become_agent(plan, seccomp)
        os.write(write_end, ", ".join(_permitted()).encode() or b"none")
        os._exit(0)

    pid = spawn(child)
    os.close(write_end)
    answer = os.read(read_end, 4096)
    os.waitpid(pid, 0)
    if answer != b"none":
        raise OSError(errno.EPERM, f"confinement: an agent process could {answer.decode() or 'not start'}")


def _overlay() -> None:
    try:
        os.rename("file", "moved")  # copy-up and whiteout
        os.unlink("dir/inner")
        os.rmdir("dir")
        os.mkdir("dir")  # opaque directory
        with open("dir/new", "w") as file:
            file.write("x")
        os.unlink("dir/new")
    except OSError as error:
        raise OSError(error.errno, f"overlay: changing a lower file fails: {error.strerror}") from error
    if sorted(os.listdir(".")) != ["dir", "moved"] or os.listdir("dir"):
        raise OSError(errno.EINVAL, "overlay: deleted files come back")


def _permitted() -> list[str]:
    """Names of forbidden things that succeed."""
    found = []
    for name, call in {
        "mount": lambda: sys_.mount("none", "/tmp", "tmpfs"),
        "make a user namespace": lambda: sys_.unshare(_CLONE_NEWUSER),
        "trace": lambda: sys_.check(ctypes.CDLL(None, use_errno=True).ptrace(0, 0, 0, 0), "ptrace"),
        "open a vsock": lambda: socket.socket(_AF_VSOCK, socket.SOCK_STREAM).close(),
        "become root": lambda: os.setuid(0),
        "kill the supervisor": lambda: _kill_supervisor(),
    }.items():
        try:
            call()
        except OSError:
            continue
        found.append(name)
    return found


def _kill_supervisor() -> None:
    os.kill(1, 9)  # permitted to itself in a one-user namespace, but without effect on PID 1
    raise OSError(errno.EPERM, "still here")
