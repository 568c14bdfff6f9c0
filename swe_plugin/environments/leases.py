"""Leases: what a process holds on this node is on disk before it exists, so that nothing outlives its owner.

A lease is a JSON file under ``<home>/leases/<host name>/`` that its owner keeps locked with ``flock``. The
kernel drops the lock when the owner dies, however it dies; `reap` then removes what the file lists. The lock
belongs to the open file: an owner can send its descriptor to another process, which then owns the lease too.
Processes are found by the lease id, a word of their command line, or by what they use: a listed directory that
they work in or have a file of open. Mounts need no record: they live in mount namespaces only, and end with
their processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import signal
import socket
import time
import uuid
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from swe_plugin.environments.home import home
from swe_plugin.environments.removal import remove_tree
from swe_plugin.environments.slot_file import remove_unused_pools

__all__ = ["ReapReport", "ResourceLease", "lease_directory", "reap"]

logger = logging.getLogger(__name__)

_KILL_WAIT_S = 5.0
_ATTEMPTS = 50
_DAEMON_GONE_S = 7 * 86400.0
"""After it a daemon that does not answer counts as gone for good. Its containers ended with their owner anyway."""
_held: weakref.WeakSet[ResourceLease] = weakref.WeakSet()


def lease_directory() -> Path:
    """Directory of this node's lease files. Per host name, because homes may be shared between nodes."""
    path = home() / "leases" / socket.gethostname()
    path.mkdir(parents=True, exist_ok=True)
    return path


class ResourceLease:
    """A locked lease file of the calling process.

    Create it before the resource, `release` it after the resource is gone.

    Args:
        kind: what it is for, for whoever reads the file.
        cgroups: directories in which the lease may make one cgroup named after it.
        directories: directories in which it may make one directory named after it.
        daemons: addresses of Docker daemons that may have containers labelled with it.

    Attributes:
        id: unique; processes that belong to the lease carry it in their command line.
        path: the file.
        cgroups, directories: what it may make.
    """

    def __init__(
        self,
        kind: str,
        *,
        cgroups: Iterable[Path] = (),
        directories: Iterable[Path] = (),
        daemons: Iterable[str] = (),
    ) -> None:
        self.id = f"swe-{uuid.uuid4().hex[:16]}"
        self.path = lease_directory() / f"{self.id}.json"
        self.cgroups = [path / self.id for path in cgroups]
        self.directories = [path / self.id for path in directories]
        record = {
            "id": self.id,
            "kind": kind,
            "made_by_pid": os.getpid(),
            "cgroups": [str(path) for path in self.cgroups],
            "directories": [str(path) for path in self.directories],
            "daemons": list(daemons),
        }
        draft = self.path.with_suffix(".draft")
        self._fd = _locked(draft)
        os.write(self._fd, json.dumps(record).encode())
        draft.rename(self.path)
        self._shared = False
        _held.add(self)

    @classmethod
    def joined(cls, name: str, fd: int) -> Self:
        """A lease of another process that this one owns as well, from now on.

        Args:
            name: its id.
            fd: of its locked file, sent by an owner; the lock falls with the last owner.
        """
        lease = cls.__new__(cls)
        lease.id, lease.path = name, lease_directory() / f"{name}.json"
        lease.cgroups, lease.directories = [], []
        lease._fd, lease._shared = fd, True
        _held.add(lease)
        return lease

    def share(self) -> int:
        """A descriptor for another owner."""
        self._shared = True
        return os.dup(self._fd)

    @property
    def is_shared(self) -> bool:
        """Another process owns it, or did."""
        return self._shared

    def release(self) -> None:
        """Forget the lease; what it listed must be gone, or is removed if the last owner of a shared one leaves.

        Idempotent; blocking in that last case.
        """
        if self._fd >= 0 and self._shared:
            self.clean()
        elif self._fd >= 0:
            self.path.unlink(missing_ok=True)
            self._drop()

    def clean(self) -> None:
        """Forget the lease and remove what it listed; what cannot be removed now is left to `reap`. Blocking."""
        if self._fd >= 0:
            self._drop()
            report = ReapReport()
            _reap_one(self.path, report)
            if report.problems:
                logger.warning("left to the reaper: %s", report)

    def abandon(self) -> None:
        """Let go without having cleaned up: the next `reap` does it."""
        if self._fd >= 0:
            self._drop()

    def _drop(self) -> None:
        os.close(self._fd)
        self._fd = -1
        _held.discard(self)


def _locked(draft: Path) -> int:
    """A new file, locked. A reaper that comes between the two takes it for one whose owner died: then another."""
    while True:
        fd = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_EXCL, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        if os.fstat(fd).st_nlink:
            return fd
        os.close(fd)


def _drop_in_child() -> None:
    """A forked child shares the lock's open file: it must let go, or the lease would outlive its owner."""
    for lease in list(_held):
        lease._drop()


os.register_at_fork(after_in_child=_drop_in_child)


@dataclass(slots=True)
class ReapReport:
    """What `reap` removed, and what it could not (reasons in `problems`)."""

    leases: list[str] = field(default_factory=list)
    processes: int = 0
    cgroups: int = 0
    directories: int = 0
    containers: int = 0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        text = (
            f"{len(self.leases)} stale leases: {self.processes} processes, {self.cgroups} cgroups, "
            f"{self.directories} directories, {self.containers} containers removed"
        )
        return "; ".join([text, *self.problems])


def reap() -> ReapReport:
    """Remove what leases without a living owner list. Blocking; safe to run at any time, by many at once.

    A lease that cannot be cleaned completely is kept, reported in `ReapReport.problems`, and tried again by
    the next call.
    """
    report = ReapReport()
    for path in sorted(lease_directory().iterdir()):
        _reap_one(path, report)
    remove_unused_pools()
    if report.leases or report.problems:
        logger.info("%s", report)
    return report


def _reap_one(path: Path, report: ReapReport) -> None:
    with _stale(path) as record:
        if record is not None:
            before = len(report.problems)
            _clean(record, time.time() - path.stat().st_mtime, report)
            if len(report.problems) == before:
                path.unlink(missing_ok=True)
                report.leases.append(path.stem)


@contextlib.contextmanager
def _stale(path: Path) -> Iterator[dict[str, Any] | None]:
    """The record of a lease nobody holds, locked meanwhile; None if it is held or gone."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        alive = os.fstat(fd).st_nlink > 0
        yield _parse(fd) if alive else None
    except BlockingIOError:
        yield None
    finally:
        os.close(fd)


def _parse(fd: int) -> dict[str, Any]:
    try:
        record = json.loads(os.pread(fd, 1 << 20, 0))
    except ValueError:
        return {}  # its owner died between creating and writing it: nothing existed yet
    return record if isinstance(record, dict) else {}


def _clean(record: dict[str, Any], age_s: float, report: ReapReport) -> None:
    marker = str(record.get("id", ""))
    if marker:
        report.processes += _kill(lambda: _marked(marker), report)
    for name in record.get("cgroups", ()):
        _remove_cgroup(Path(name), report)
    for name in record.get("directories", ()):
        if os.path.lexists(name):
            report.processes += _kill(lambda name=name: _using(Path(name)), report)
            try:
                remove_tree(Path(name))
                report.directories += 1
            except OSError as error:
                report.problems.append(f"{name}: {error}")
    for host in record.get("daemons", ()):
        _remove_containers(host, marker, age_s, report)


def _remove_containers(host: str, lease: str, age_s: float, report: ReapReport) -> None:
    try:
        from swe_plugin.environments.docker.reaper import remove_containers
    except ImportError as error:
        report.problems.append(f"containers of {lease} on {host}: {error}")
        return
    removed, problem = remove_containers(host, lease)
    report.containers += removed
    if problem and age_s > _DAEMON_GONE_S:
        logger.warning("forgotten, because no daemon has answered for %d days: %s", age_s // 86400, problem)
    elif problem:
        report.problems.append(problem)


def _marked(marker: str) -> list[int]:
    """Processes that have the lease id as a word of their command line."""
    word, found = marker.encode(), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if word in (entry / "cmdline").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def _using(directory: Path) -> list[int]:
    """Processes that work in `directory` or below, or have a file there open: what a killed owner had started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid() and _reaches(entry, directory):
            found.append(int(entry.name))
    return found


def _reaches(process: Path, directory: Path) -> bool:
    with contextlib.suppress(OSError):  # gone, or another user's
        for link in (process / "cwd", *(process / "fd").iterdir()):
            with contextlib.suppress(OSError):
                if link.readlink().is_relative_to(directory):
                    return True
    return False


def _members(cgroup: Path) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(pid) for pid in (cgroup / "cgroup.procs").read_text().split()]
    return []


def _kill(find: Any, report: ReapReport) -> int:
    """SIGKILL what `find` lists until it lists nothing twice; returns how many there were.

    Twice, because a listing of /proc can miss a process that was forked meanwhile under a smaller number.
    """
    seen: set[int] = set()
    deadline = time.monotonic() + _KILL_WAIT_S
    while pids := find() or find():
        seen.update(pids)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            except OSError as error:
                report.problems.append(f"process {pid}: {error}")
                return len(seen)
        if time.monotonic() > deadline:
            report.problems.append(f"processes {pids} survive SIGKILL")
            break
        time.sleep(0.01)
    return len(seen)


def _remove_cgroup(top: Path, report: ReapReport) -> None:
    problem = ""
    for _ in range(_ATTEMPTS):
        if not top.is_dir():
            return
        for path in _deepest_first(top):
            report.processes += _kill(lambda path=path: _members(path), report)
            try:
                path.rmdir()
                report.cgroups += 1
            except FileNotFoundError:
                continue
            except OSError as error:  # EBUSY while the last member is being torn down
                problem = f"{path}: {error}"
        time.sleep(0.01)
    report.problems.append(problem)


def _deepest_first(top: Path) -> Sequence[Path]:
    return [Path(path) for path, _, _ in os.walk(top, topdown=False)]
