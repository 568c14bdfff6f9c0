"""`TrajectoryStore`: one directory per rollout, written whole or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import fcntl
import glob
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swe_plugin.trajectories.names import safe_name
from swe_plugin.trajectories.redact import Redactor
from swe_plugin.trajectories.schema import from_json, to_json, tokens_to_json
from swe_plugin.types import RolloutResult

__all__ = ["Trajectory", "TrajectoryStore", "find_trajectories", "load_trajectory", "remove_partial"]

_PARTIAL = ".partial-"
"""Directories that are being written. Their writer holds a lock on them, which dies with it."""


@dataclass(slots=True)
class Trajectory:
    """A recorded rollout: where it lies, its trainer step and phase (``train`` or ``val``), and its result."""

    path: Path
    step: int
    phase: str
    result: RolloutResult


class TrajectoryStore:
    """Writes below one run directory; any number of processes may share it.

    Args:
        run_dir: the run's directory, made on first use.
    """

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self._swept = False

    async def save(self, result: RolloutResult, *, step: int, phase: str) -> Path:
        """Write one rollout, in a thread.

        The first call also removes what killed processes left half-written in any run beside this one.
        A second rollout of the same name (a refilled group, a repeated validation) gets ``.2`` and so on.

        Returns:
            Its directory, ``step_<N>/<phase>/<instance>@<session>``.

        Raises:
            OSError: it cannot be written; nothing half-written is left.
            ValueError: `phase` is neither ``train`` nor ``val``.
        """
        if phase not in ("train", "val"):
            raise ValueError(f"phase={phase!r}: must be train or val")
        return await asyncio.to_thread(self._save, result, int(step), phase)

    def _save(self, result: RolloutResult, step: int, phase: str) -> Path:
        if not self._swept:
            self._swept = True
            remove_partial(self.run_dir.parent)
        parent = self.run_dir / f"step_{step}" / phase
        parent.mkdir(parents=True, exist_ok=True)
        partial, lock = _locked_directory(parent)
        try:
            _write(partial, result, step, phase)
            partial.chmod(0o755)
            return _publish(partial, parent / f"{safe_name(result.task.instance_id)}@{int(result.session)}")
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        finally:
            os.close(lock)


def _locked_directory(parent: Path) -> tuple[Path, int]:
    """A new directory and the descriptor that locks it. A sweep may take one away before it is locked: then the
    next is tried."""
    while True:
        partial = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=parent))
        try:
            lock = os.open(partial, os.O_RDONLY)
        except FileNotFoundError:
            continue
        with contextlib.suppress(OSError):  # a file system without locks: then nobody sweeps either
            fcntl.flock(lock, fcntl.LOCK_SH)
        if partial.exists():
            return partial, lock
        os.close(lock)


def remove_partial(parent: Path) -> None:
    """Remove half-written rollouts whose writer is gone.

    Args:
        parent: directory of all runs.
    """
    # not Path.glob, which raises if a directory goes away meanwhile
    for partial in map(Path, glob.iglob(f"{glob.escape(str(parent))}/*/step_*/*/{_PARTIAL}*")):  # noqa: PTH207
        with contextlib.suppress(OSError):  # published or removed meanwhile, or its writer lives
            lock = os.open(partial, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(partial)
            finally:
                os.close(lock)


def find_trajectories(run_dir: Path) -> Iterator[Path]:
    """Directories of all complete rollouts of a run, by step, phase and name."""
    steps = sorted(run_dir.glob("step_*"), key=lambda path: int(path.name.removeprefix("step_")))
    for step in steps:
        for path in sorted(step.glob("*/*/trajectory.json")):
            if not path.parent.name.startswith(_PARTIAL):
                yield path.parent


def load_trajectory(path: Path) -> Trajectory:
    """Read what `TrajectoryStore.save` wrote. Secrets that were redacted stay so.

    Raises:
        FileNotFoundError: no trajectory there.
        ValueError: not of this format.
    """
    data = json.loads((path / "trajectory.json").read_text(encoding="utf-8"))
    grade_file = path / "grade.json"
    grade = json.loads(grade_file.read_text(encoding="utf-8")) if grade_file.exists() else None
    tokens = json.loads((path / "tokens.json").read_text(encoding="utf-8"))
    result = from_json(data, patch=(path / "patch.diff").read_bytes().decode(), grade=grade, tokens=tokens)
    return Trajectory(path, data["step"], data["phase"], result)


def _write(directory: Path, result: RolloutResult, step: int, phase: str) -> None:
    redact = Redactor.current()
    _write_json(directory / "trajectory.json", redact.data(to_json(result, step=step, phase=phase)))
    (directory / "tokens.json").write_text(json.dumps(tokens_to_json(result)), encoding="utf-8")
    # bytes, not text: a patch may hold \r\n, which no platform may touch
    (directory / "patch.diff").write_bytes(redact.text(result.patch).encode(errors="backslashreplace"))
    if result.grade is not None:
        _write_json(directory / "grade.json", redact.data(dataclasses.asdict(result.grade)))
    for number, failure in enumerate(result.failures, start=1):
        text = f"{failure}\n\n{failure.traceback}"
        (directory / f"failure_{number}.txt").write_bytes(redact.text(text).encode(errors="backslashreplace"))


def _write_json(path: Path, data: Mapping[str, Any]) -> None:
    """UTF-8, a line per key and per item of a list; all ASCII if there is a lone surrogate, which UTF-8 cannot hold."""
    try:
        encoded = _lines(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        encoded = _lines(data, ensure_ascii=True).encode()
    path.write_bytes(encoded)


def _lines(data: Mapping[str, Any], *, ensure_ascii: bool) -> str:
    # Not `indent`: with it Python's json encodes in Python, which took longer than all else that a record costs.
    encode = json.JSONEncoder(ensure_ascii=ensure_ascii).encode

    def lines(value: Any) -> str:
        if isinstance(value, list) and value:
            return "[\n  " + ",\n  ".join(map(encode, value)) + "\n ]"
        return encode(value)

    return "{\n" + ",\n".join(f" {encode(key)}: {lines(value)}" for key, value in data.items()) + "\n}\n"


def _publish(partial: Path, target: Path) -> Path:
    """Rename to the first free name; atomic, also against other processes."""
    for number in itertools.count(1):
        final = target if number == 1 else target.with_name(f"{target.name}.{number}")
        try:
            os.rename(partial, final)  # noqa: PTH104 (fails on a directory that is not empty)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            return final
    raise AssertionError("unreachable")
