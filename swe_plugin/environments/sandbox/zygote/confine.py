"""The last steps of a process before it belongs to the agent: limits, identity, no way back."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal

from swe_plugin.environments.sandbox.zygote import syscalls as sys_
from swe_plugin.environments.sandbox.zygote.plan import Plan
from swe_plugin.environments.sandbox.zygote.seccomp import denying

__all__ = ["NAMESPACE_FD", "become_agent", "execute", "keep_descriptors"]

NAMESPACE_FD = 202
"""Where a child of a mapped sandbox finds the user namespace that it is to join."""
_MAPPED_ROOT = sum(1 << cap for cap in (0, 1, 3, 4, 5, 6, 7))
"""Capabilities of an agent that is root in a user namespace: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID.

They hold over what belongs to that namespace: its files and processes. Network, mounts and host name do not.
"""

_ABOVE = 256
"""Descriptors below it may be targets."""
_ALL = 1 << 20
_SHARED_PROCESSES = 4096
"""Bound of all sandboxes together where nothing else bounds them, so that a fork bomb cannot take the node."""
_HANDLED = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),  # ignored by the supervisor
    *(signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD),  # by Python and the zygote
)


def keep_descriptors(wanted: dict[int, int]) -> None:
    """Leave exactly the given descriptors open: target number -> current number."""
    # Move the sources out of the way of the targets first, so that no dup2 overwrites a source.
    moved = {target: fcntl.fcntl(source, fcntl.F_DUPFD, _ABOVE) for target, source in wanted.items()}
    low = 0
    for target in sorted(moved):
        os.dup2(moved[target], target)
        if low < target:  # an empty range would close everything
            os.closerange(low, target)
        low = target + 1
    os.closerange(low, _ALL)


def become_agent(plan: Plan) -> None:
    """Take the agent's limits and identity, and give up every privilege for good.

    The system-call filter is the supervisor's own, and inherited.
    """
    for number in _HANDLED:
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    os.umask(0o022)
    with contextlib.suppress(OSError):
        sys_.write("/proc/self/oom_score_adj", "500")
    _set_limits(plan)
    sys_.prctl(sys_.PR_SET_CHILD_SUBREAPER, 1)
    sys_.prctl(sys_.PR_SET_NO_NEW_PRIVS, 1)
    if not plan.user_namespace:
        os.setgroups([])
        os.setresgid(plan.gid, plan.gid, plan.gid)
        os.setresuid(plan.uid, plan.uid, plan.uid)
    if plan.namespace >= 0:
        _join_namespace()
    else:
        sys_.drop_capabilities()


def _join_namespace() -> None:
    """Become root of the user namespace; its owner, outside, is whom this process just became."""
    sys_.setns(NAMESPACE_FD, sys_.CLONE_NEWUSER)
    os.close(NAMESPACE_FD)
    sys_.set_seccomp_filter(denying("setns", sys_.MACHINE))
    sys_.drop_bounding_set(_MAPPED_ROOT)
    sys_.drop_capabilities(_MAPPED_ROOT)


def _set_limits(plan: Plan) -> None:
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: plan.open_files,
        resource.RLIMIT_MEMLOCK: 1 << 16,
        resource.RLIMIT_MSGQUEUE: 1 << 16,
        resource.RLIMIT_SIGPENDING: 1024,
    }
    if "memory" not in plan.cgroups:
        limits[resource.RLIMIT_DATA] = plan.memory_bytes
    if "pids" not in plan.cgroups:
        # Counted per user namespace since Linux 5.14; without one, all sandboxes of this node share one count.
        limits[resource.RLIMIT_NPROC] = plan.pids if plan.user_namespace else _SHARED_PROCESSES
    for what, value in limits.items():
        hard = resource.getrlimit(what)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (value, value))


def execute(argv: list[str], env: dict[str, str]) -> None:
    """Replace this process by a program found in ``env["PATH"]``; ends it with 126 or 127 if that fails."""
    directories = [""] if "/" in argv[0] else env.get("PATH", "/usr/bin:/bin").split(":")
    code, reason = 127, "command not found"
    for directory in directories:
        try:
            os.execve(f"{directory}/{argv[0]}" if directory else argv[0], argv, env)  # noqa: S606
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError) as error:
            code, reason = 126, getattr(error, "strerror", None) or str(error)
    os.write(2, f"{argv[0]}: {reason}\n".encode(errors="surrogateescape"))
    os._exit(code)
