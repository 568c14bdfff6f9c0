"""Control groups of one sandbox, version 1 or 2: make them, set limits, remove them.

In version 1 each controller has its own hierarchy and directory; in version 2 one directory has all.
Files: the kernel's Documentation/admin-guide/cgroup-v1 and cgroup-v2.
"""

from __future__ import annotations

import os

from swe_plugin.environments.sandbox.zygote import syscalls as sys_

__all__ = ["create", "limit_files", "open_members", "remove"]

_PERIOD_US = 100_000


def limit_files(version: int, controller: str, *, memory_bytes: int, pids: int, cpus: float) -> dict[str, str]:
    """File name -> value that bounds one controller; names starting with ``?`` may be missing."""
    quota = max(1000, int(cpus * _PERIOD_US))
    table: dict[tuple[int, str], dict[str, str]] = {
        (1, "memory"): {
            "memory.limit_in_bytes": str(memory_bytes),
            "?memory.memsw.limit_in_bytes": str(memory_bytes),
        },
        (1, "pids"): {"pids.max": str(pids)},
        (1, "cpu"): {"cpu.cfs_period_us": str(_PERIOD_US), "cpu.cfs_quota_us": str(quota)},
        (2, "memory"): {"memory.max": str(memory_bytes), "?memory.swap.max": "0"},
        (2, "pids"): {"pids.max": str(pids)},
        (2, "cpu"): {"cpu.max": f"{quota} {_PERIOD_US}"},
    }
    return table.get((version, controller), {})


def create(groups: dict[str, str], version: int, *, memory_bytes: int, pids: int, cpus: float) -> None:
    """Make the directories and write the limits.

    Raises:
        OSError: a directory cannot be made or a limit cannot be set.
    """
    for controller, path in groups.items():
        if not os.path.isdir(path):  # version 2: all controllers share one
            os.mkdir(path)  # never its parent, which is gone if the reaper was here
        for name, value in limit_files(version, controller, memory_bytes=memory_bytes, pids=pids, cpus=cpus).items():
            file = os.path.join(path, name.removeprefix("?"))
            if name.startswith("?") and not os.path.exists(file):
                continue
            sys_.write(file, value)


def open_members(groups: dict[str, str], version: int) -> list[int]:
    """Descriptors into which a process of one thread writes ``0`` to join; usable after the pivot.

    In version 1 that is ``tasks``: moving oneself by it takes no lock, by ``cgroup.procs`` it takes one for which the
    kernel waits until every processor has passed a quiet state, milliseconds during which nobody on the node forks.
    """
    name = "tasks" if version == 1 else "cgroup.procs"
    return [os.open(f"{path}/{name}", os.O_WRONLY | os.O_CLOEXEC) for path in sorted(set(groups.values()))]


def remove(groups: dict[str, str]) -> bool:
    """Remove the directories; False if one is still busy."""
    for path in set(groups.values()):
        try:
            os.rmdir(path)
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True
