"""`RaySession`: a Ray session of our own, whose directory goes when the run ends, however it ends."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path

import psutil
from omegaconf import DictConfig

from swe_plugin.environments.leases import ResourceLease, reap

__all__ = ["RaySession"]

_LONGEST = 40
"""Characters of the directory: Ray's socket paths below it add 65, and the kernel allows 107 (unix(7))."""


class RaySession:
    """The local Ray that verl starts for a run: a leased temporary directory and its processes.

    A Ray cluster that the user started, or a directory that the user named, is left alone.

    Args:
        config: verl's configuration; ``ray_kwargs.ray_init._temp_dir`` is set where the session is ours, the numbers
            of processors are taken out where it is not.
    """

    def __init__(self, config: DictConfig) -> None:
        settings = config.ray_kwargs.ray_init
        self._lease: ResourceLease | None = None
        base = Path(tempfile.gettempdir())
        cluster = settings.get("address") or os.environ.get("RAY_ADDRESS")
        if cluster:
            settings.num_cpus = settings.num_gpus = None  # it has its own; Ray refuses to hear of others
        foreign = cluster or settings.get("_temp_dir")
        if not foreign and len(str(base)) + len("/swe-") + 16 <= _LONGEST:
            self._lease = ResourceLease("ray", directories=[base])
            settings._temp_dir = str(self._lease.directories[0])

    def end(self, *, logs_to: Path | None = None, patience_s: float = 10.0) -> None:
        """Stop Ray's processes and remove what this node still holds for the run.

        Ray kills its workers, so they cannot do it themselves. What another node holds is removed there by the
        next start.

        Args:
            logs_to: where Ray's logs are kept; None drops them.
            patience_s: how long what this process started may take to end by itself.
        """
        import ray

        started = psutil.Process().children(recursive=True)
        ray.shutdown()
        for process in _still_running(started, patience_s):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        _still_running(started, patience_s)
        if self._lease is not None:
            directory = self._lease.directories[0]
            logs = directory / "session_latest" / "logs"
            if logs_to is not None and logs.is_dir():
                shutil.copytree(logs, logs_to, dirs_exist_ok=True, symlinks=True, ignore=_sockets)
            shutil.rmtree(directory, ignore_errors=True)
            self._lease.abandon()  # the reaper below removes what could not be removed here, or reports it
        reap()


def _still_running(processes: list[psutil.Process], patience_s: float) -> list[psutil.Process]:
    """Those that run after `patience_s`, sooner if none does. A zombie does not run; `psutil.wait_procs` waits for
    ever for one whose parent is somebody else."""
    end = time.monotonic() + patience_s
    while running := [process for process in processes if _runs(process)]:
        if time.monotonic() > end:
            break
        time.sleep(0.05)
    return running


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _sockets(directory: str, names: list[str]) -> set[str]:
    return {name for name in names if (Path(directory) / name).is_socket()}
