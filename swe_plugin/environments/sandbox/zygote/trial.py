"""What a trial sandbox checks from inside: that the file system behaves and that forbidden calls are refused."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable

from swe_plugin.environments.sandbox.zygote import confine
from swe_plugin.environments.sandbox.zygote import syscalls as sys_
from swe_plugin.environments.sandbox.zygote.jobs import spawn
from swe_plugin.environments.sandbox.zygote.plan import Plan

__all__ = ["run_trial"]

_AF_VSOCK = 40


def run_trial(plan: Plan, cgroup_fds: list[int]) -> None:
    """Run all checks; the working directory of the trial layer holds ``file`` and ``dir/inner``.

    Raises:
        OSError: something does not work or does not hold; the message says what.
    """
    os.chdir(plan.workdir)
    if plan.namespace < 0:
        _overlay()  # else as the agent, whose the layer is
    with open("/proc/self/stat") as stat:
        if stat.read(2) != "1 ":
            raise OSError(errno.EINVAL, "proc: shows another PID namespace")
    read_end, write_end = os.pipe()

    def child() -> None:
        for fd in cgroup_fds:
            os.write(fd, b"0")
        if plan.namespace >= 0:
            os.dup2(plan.namespace, confine.NAMESPACE_FD)
        try:
            confine.become_agent(plan)
            if plan.namespace >= 0:
                _overlay()
                _root_inside()
        except OSError as error:
            os.write(write_end, str(error.strerror).encode())
            os._exit(1)
        found = ", ".join(_permitted(plan))
        os.write(write_end, f"confinement: an agent process could {found}".encode() if found else b"none")
        os._exit(0)

    pid = spawn(child)
    os.close(write_end)
    answer = os.read(read_end, 4096)
    os.waitpid(pid, 0)
    if answer != b"none":
        raise OSError(errno.EPERM, answer.decode() or "confinement: an agent process could not start")


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


def _root_inside() -> None:
    """What one is root for. The file belongs to root outside."""
    if os.stat("moved").st_uid:
        raise OSError(errno.EINVAL, "owners: a file of root is another's inside")
    try:
        os.chown("moved", 1, 2)
    except OSError as error:
        raise OSError(error.errno, f"owners: root cannot give a file away: {error.strerror}") from error


def _join() -> None:
    try:
        sys_.setns(-1, 0)
    except OSError as error:
        if error.errno != errno.EBADF:  # else the call was let through
            raise


def _permitted(plan: Plan) -> list[str]:
    """Names of forbidden things that succeed."""
    calls: dict[str, Callable[[], object]] = {
        "mount": lambda: sys_.mount("none", "/", "tmpfs"),
        "make a user namespace": lambda: sys_.unshare(sys_.CLONE_NEWUSER),
        "trace a process": sys_.trace_me,
        "open a vsock": lambda: socket.socket(_AF_VSOCK, socket.SOCK_STREAM).close(),
        "become another user": lambda: os.setuid(0 if os.getuid() else 0x7000_0000),
        "join a namespace": _join,
        "read the supervisor's memory": lambda: os.close(os.open("/proc/1/mem", os.O_RDONLY)),
    }
    if not plan.user_namespace:  # there, the supervisor has the agent's user id
        calls["signal the supervisor"] = lambda: os.kill(1, 0)
    found = []
    for name, call in calls.items():
        try:
            call()
        except OSError:
            continue
        found.append(name)
    return found
