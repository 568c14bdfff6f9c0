"""PID 1 of a container: the sandbox's supervisor, connected to the owner by stdin and stdout.

Runs in an interpreter of ours that is mounted read-only into the container (`bundle`), so that images need no
Python. Standard library and `sandbox.zygote` only, and nothing imported late.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import resource
import sys
from functools import partial

from swe_plugin.environments.docker.guest_checks import check_image
from swe_plugin.environments.sandbox.zygote import syscalls as sys_
from swe_plugin.environments.sandbox.zygote.build import error_text, receive_plan
from swe_plugin.environments.sandbox.zygote.frames import encode
from swe_plugin.environments.sandbox.zygote.jobs import ignore_signals
from swe_plugin.environments.sandbox.zygote.link import OwnerLink
from swe_plugin.environments.sandbox.zygote.seccomp import build_filter
from swe_plugin.environments.sandbox.zygote.supervisor import Supervisor

__all__ = ["main"]


def main() -> None:
    """Serve the owner until it is gone."""
    ends = _take_stdio()
    plan = receive_plan(ends[0])
    if plan is None:
        return
    try:
        plan = dataclasses.replace(plan, uid=os.getuid(), gid=os.getgid())
        check_image(plan.workdir, plan.env)
        _harden()
        supervisor = Supervisor(partial(OwnerLink, *ends), plan, [])
    except (OSError, ValueError) as error:
        os.write(ends[1], encode({"id": 0, "error": error_text(error)}))
        return
    supervisor.run(0)


def _take_stdio() -> tuple[int, int]:
    """Move the pipes to the owner out of the place where programs expect their own."""
    ends = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    return ends


def _harden() -> None:
    """The daemon took the capabilities; this takes the rest, and hides this process's memory from the agent."""
    ignore_signals()
    sys.path.clear()  # what is not imported yet never will be
    sys.meta_path.clear()
    with contextlib.suppress(OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys_.drop_capabilities()
    sys_.prctl(sys_.PR_SET_NO_NEW_PRIVS, 1)
    sys_.prctl(sys_.PR_SET_DUMPABLE, 0)
    sys_.set_seccomp_filter(build_filter(os.uname().machine))
