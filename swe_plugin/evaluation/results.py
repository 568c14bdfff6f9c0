"""`Results`: the journal of an evaluation. What is in it need not be run again."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swe_plugin.errors import ConfigError
from swe_plugin.evaluation.sample_result import SampleResult
from swe_plugin.evaluation.samples import Sample
from swe_plugin.trajectories.redact import Redactor

__all__ = ["Results"]

_FILE, _LOCK = "results.jsonl", ".lock"


class Results:
    """Lines of ``results.jsonl`` below one directory, the last one of a sample counts. Made by `opened`.

    Args:
        directory: of the evaluation, which exists.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._path = directory / _FILE
        self._redact = Redactor()
        self._of = {result.key: result for result in self._read()}

    @classmethod
    @contextmanager
    def opened(cls, directory: Path) -> Iterator[Results]:
        """The journal of a directory, for this process alone.

        Raises:
            ConfigError: another process is writing there, or a line is no result.
            OSError: the directory cannot be made or written.
        """
        directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ConfigError("--out", str(directory), "another evaluation is writing there") from error
            yield cls(directory)
        finally:
            os.close(lock)  # which gives the lock back, as the death of this process would

    def of(self, sample: Sample) -> SampleResult | None:
        """What came of `sample`, or None if it was not run.

        Raises:
            ConfigError: another task, or another patch, of the same name was.
        """
        found = self._of.get(sample.key)
        if found is not None and found.digest != sample.digest:
            option, what = ("--dataset", "task") if sample.patch is None else ("--predictions", "patch or task")
            fix = f"has a result of another {what} in {self.directory}: take a new --out"
            raise ConfigError(option, sample.task.instance_id, fix)
        return found

    def missing(self, samples: list[Sample]) -> list[Sample]:
        """Those without a result, or whose infrastructure failed.

        Raises:
            ConfigError: see `of`.
        """
        found = [(sample, self.of(sample)) for sample in samples]
        return [sample for sample, result in found if result is None or result.failed]

    def add(self, result: SampleResult) -> None:
        """Append one result. It is on the disk when this returns, so that a machine that dies does not lose it."""
        line = json.dumps(self._redact.data(result.to_json()), ensure_ascii=True)
        with self._path.open("a", encoding="ascii") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._of[result.key] = result

    def _read(self) -> Iterator[SampleResult]:
        """All complete lines. One that was cut by a death is cut off, so that the next begins on a line of its own."""
        if not self._path.exists():
            return
        content = self._path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            os.truncate(self._path, len(whole))
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                yield SampleResult.from_json(json.loads(line))
            except ValueError as error:
                raise ConfigError("--out", str(self._path), f"line {number}: {error}") from error
