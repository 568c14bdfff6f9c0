"""This machine: interpreter, processors, memory, descriptors."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from swe_plugin.preflight.finding import Finding

__all__ = ["LEAST_MEMORY_GIB", "look_at_machine", "memory_gib", "open_file_limit", "open_files"]

LEAST_MEMORY_GIB = 4.0
"""Trainer, sampler, Ray and queue of a tiny model: every process imports PyTorch and verl, 0.5 to 1 GiB each."""
_OWN_FILES = 512
"""Descriptors of a Ray worker without any environment, generously."""
_RAY_RAISES_TO = 65536
_PYTHONS = ((3, 11), (3, 12))
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def look_at_machine() -> Iterator[Finding]:
    """Everything that does not depend on a recipe."""
    here = sys.version_info[:2]
    yield Finding(
        "Python",
        here in _PYTHONS,
        f"{platform.python_version()} ({sys.executable})",
        key="Python",
        value=platform.python_version(),
        fix="install with Python 3.11 or 3.12",
    )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    yield Finding("CPU", True, f"{cores} cores, {platform.machine()}")
    yield Finding("GPU", True, _gpus())
    total = memory_gib()
    yield Finding(
        "memory",
        total >= LEAST_MEMORY_GIB,
        f"{total:.1f} GiB, {psutil.virtual_memory().available / 2**30:.1f} available",
        key="memory",
        value=f"{total:.1f} GiB",
        fix=f"a run needs {LEAST_MEMORY_GIB:g} GiB; give this machine or container more",
    )
    yield open_files(0)


def memory_gib() -> float:
    """Memory that this process may use, GiB: the machine's, or the limit of the container's cgroup."""
    total = psutil.virtual_memory().total
    for path in _CGROUP_LIMITS:
        try:
            total = min(total, int(Path(path).read_text()))
        except (OSError, ValueError):  # no such hierarchy, or "max"
            continue
    return float(total) / 2**30


def open_file_limit() -> int:
    """Descriptors that each process of a run may hold: Ray raises the soft limit as far as it can."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        return _RAY_RAISES_TO if soft == resource.RLIM_INFINITY else max(soft, _RAY_RAISES_TO)
    return max(soft, min(hard, _RAY_RAISES_TO))


def open_files(environments: int) -> Finding:
    """Whether a process can hold this many environments: each has a socket, a slot and a call of the model."""
    limit, needed = open_file_limit(), _OWN_FILES + 3 * environments
    return Finding(
        "open files",
        limit >= needed,
        f"{limit} per process, {needed} needed" if environments else f"{limit} per process",
        key="ulimit -n",
        value=limit,
        fix=f"must be at least {needed} for {environments} environments at once: raise the hard limit "
        "(ulimit -Hn, or --ulimit nofile= of the container), or lower swe.slots.running",
    )


def _gpus() -> str:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "none seen; recipes run on the CPU unless they ask for GPUs"
    query = [tool, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"nvidia-smi does not answer: {error}"
    return "; ".join(done.stdout.splitlines()) or f"nvidia-smi: {(done.stderr or 'no device').splitlines()[0]}"
