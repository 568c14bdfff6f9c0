"""What the zygote's child does in its new namespaces before it serves as PID 1, partly ahead of any request."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import resource
import socket
import sys
from functools import partial

from swe_plugin.environments.sandbox.zygote import cgroups
from swe_plugin.environments.sandbox.zygote import syscalls as sys_
from swe_plugin.environments.sandbox.zygote.frames import Decoder, encode
from swe_plugin.environments.sandbox.zygote.jobs import ignore_signals
from swe_plugin.environments.sandbox.zygote.link import OwnerLink
from swe_plugin.environments.sandbox.zygote.mounts import enter_root, lay_out
from swe_plugin.environments.sandbox.zygote.plan import AGENT, Ground, Plan
from swe_plugin.environments.sandbox.zygote.seccomp import build_filter
from swe_plugin.environments.sandbox.zygote.supervisor import Supervisor
from swe_plugin.environments.sandbox.zygote.trial import run_trial

__all__ = ["check_image", "error_text", "first_namespaces", "receive_plan", "run_sandbox"]

_CAP_CHOWN, _CAP_KILL, _CAP_SETGID, _CAP_SETUID, _CAP_SYS_PTRACE = 0, 5, 6, 7, 19
_KEEP = sum(1 << cap for cap in (_CAP_CHOWN, _CAP_KILL, _CAP_SETGID, _CAP_SETUID, _CAP_SYS_PTRACE))
"""What a supervisor needs: pipes the agent may reopen, ending its processes, becoming it, seeing it in /proc."""
_OOM_SCORE = "-900"
try:
    _FILTER = build_filter(os.uname().machine)
    _FILTER_BEFORE_JOINING = build_filter(os.uname().machine, but="setns")
except ValueError as unknown:
    _FILTER = _FILTER_BEFORE_JOINING = b""
    _NO_FILTER = str(unknown)
else:
    _NO_FILTER = ""


def first_namespaces(mode: str) -> int:
    """CLONE_NEW* flags with which the zygote forks. The others are made by the child, beside its siblings."""
    return sys_.CLONE_NEWPID | (sys_.CLONE_NEWUSER if mode == "user" else 0)


def _other_namespaces(network: str) -> int:
    flags = sys_.CLONE_NEWNS | sys_.CLONE_NEWUTS | sys_.CLONE_NEWIPC | sys_.CLONE_NEWCGROUP
    return flags | (sys_.CLONE_NEWNET if network == "none" else 0)


def run_sandbox(ground: Ground, end: socket.socket, uid: int, gid: int) -> None:
    """Make the calling process, PID 1 of a new PID namespace, a sandbox, and serve it.

    What needs no plan comes first; then it waits for its owner.

    Args:
        ground: what is known by now.
        end: socket to the zygote, over which the one to the owner comes; nothing else is open but the namespace.
        uid, gid: of the zygote, outside; mapped to the agent's in a user namespace.

    Returns when the owner is gone, or the zygote before there is one. A failure is reported to the owner.
    """
    failure: Exception | None = None
    try:
        _prepare(ground, uid, gid)
    except (OSError, ValueError) as error:
        failure = error
    channel = _await_owner(end)
    plan = receive_plan(channel.fileno()) if channel else None
    if channel is None or plan is None:
        return
    if ground.namespace >= 0:
        plan = dataclasses.replace(plan, uid=ground.first, gid=ground.first, namespace=ground.namespace)
    try:
        if failure:
            raise failure
        cgroup_fds = _finish(plan)
        if plan.trial:
            run_trial(plan, cgroup_fds)
            channel.sendall(encode({"id": 0}))
            return
        supervisor = Supervisor(partial(OwnerLink, channel.fileno(), os.dup(channel.fileno())), plan, cgroup_fds)
    except (OSError, ValueError) as error:
        with contextlib.suppress(OSError):
            channel.sendall(encode({"id": 0, "error": error_text(error)}))
        return
    supervisor.run(0)


def _prepare(ground: Ground, uid: int, gid: int) -> None:
    sys_.prctl(sys_.PR_SET_PDEATHSIG, 9)
    ignore_signals()
    if _NO_FILTER:
        raise ValueError(_NO_FILTER)
    user_namespace = ground.mode == "user"
    if user_namespace:
        _map_ids(uid, gid)
    else:
        with contextlib.suppress(OSError):
            sys_.write("/proc/self/oom_score_adj", _OOM_SCORE)
    sys_.unshare(_other_namespaces(ground.network))
    lay_out(ground.mount_point, user_namespace=user_namespace, owner=ground.first)
    sys_.sethostname("sandbox")
    if ground.network == "none":
        sys_.loopback_up()
    sys_.drop_bounding_set()
    _rehearse(ground)


def _rehearse(ground: Ground) -> None:
    """Go through what is done for a plan, with one that asks for nothing.

    All memory is the zygote's, and the first write to a page, if only to count a reference, copies it. What is copied
    here is not copied while somebody waits.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        nothing = Plan(ground.mode, [], "/", {"HOME": "/"}, ground.network, 0, 0, 0, 0, 0.0, output_bytes=0)
        theirs.sendall(encode(nothing.to_dict()))
        plan = receive_plan(ours.fileno())
        assert plan is not None
        check_image(plan)
        cgroups.limit_files(1, "memory", memory_bytes=0, pids=0, cpus=0.0)
        Supervisor(partial(OwnerLink, ours.fileno(), theirs.fileno()), plan, []).close()


def _await_owner(end: socket.socket) -> socket.socket | None:
    """The socket to the owner, once there is one; None if the zygote is gone."""
    data, fds, _, _ = socket.recv_fds(end, 1, 1)
    end.close()
    return socket.socket(fileno=fds[0]) if data else None


def _finish(plan: Plan) -> list[int]:
    """The rest of the sandbox; returns descriptors of its cgroups."""
    limits = {"memory_bytes": plan.memory_bytes, "pids": plan.pids, "cpus": plan.cpus}
    cgroups.create(plan.cgroups, plan.cgroup_version, **limits)  # type: ignore[arg-type]
    cgroup_fds = cgroups.open_members(plan.cgroups, plan.cgroup_version)
    enter_root(plan)
    check_image(plan)
    _harden(_FILTER if plan.namespace < 0 else _FILTER_BEFORE_JOINING)
    return cgroup_fds


def error_text(error: Exception) -> str:
    """The message without the error number; calls of ours already name themselves."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _map_ids(uid: int, gid: int) -> None:
    sys_.write("/proc/self/setgroups", "deny")
    sys_.write("/proc/self/uid_map", f"{AGENT} {uid} 1")
    sys_.write("/proc/self/gid_map", f"{AGENT} {gid} 1")


def check_image(plan: Plan) -> None:
    """Look for the work directory and make the home directory.

    Raises:
        ValueError: the image has no such work directory.
    """
    if not os.path.isdir(plan.workdir):
        raise ValueError(f"the image has no directory {plan.workdir} (image.workdir)")
    home = plan.env.get("HOME", "")
    if home.startswith("/"):
        _make_directory(home.rstrip("/"), plan)


def _make_directory(path: str, plan: Plan) -> None:
    """A directory of the agent's, and what is missing above it."""
    if path and not os.path.isdir(path):
        _make_directory(os.path.dirname(path).rstrip("/"), plan)
        os.mkdir(path)
        os.chown(path, plan.uid, plan.gid)


def _harden(program: bytes) -> None:
    """Take from PID 1 what it does not need, and hide its memory from the agent.

    The filter `program` is installed here, once: what it forbids, a supervisor that is set up does not need either, and
    every process of the agent inherits it.
    """
    sys.path.clear()  # the directories it names are the agent's by now: what is not imported yet never will be
    sys.meta_path.clear()
    with contextlib.suppress(OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys_.drop_capabilities(_KEEP)
    sys_.prctl(sys_.PR_SET_NO_NEW_PRIVS, 1)
    sys_.prctl(sys_.PR_SET_DUMPABLE, 0)
    sys_.set_seccomp_filter(program)


def receive_plan(reader: int) -> Plan | None:
    """The first frame of a stream; None if the owner is gone."""
    decoder = Decoder()
    while data := os.read(reader, 1 << 16):
        for header, _ in decoder.feed(data):
            return Plan(**header)
    return None
