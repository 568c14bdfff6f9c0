"""`Results`: the journal of an evaluation. What is in it need not be run again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swe_plugin.data.ledger import Ledger
from swe_plugin.errors import ConfigError
from swe_plugin.evaluation.sample_result import SampleResult
from swe_plugin.evaluation.samples import Sample
from swe_plugin.trajectories.redact import Redactor

__all__ = ["Results"]

_FILE = "results.jsonl"


class Results:
    """Results by sample, in a ledger below one directory. Made by `opened`.

    Args:
        directory: of the evaluation.
        ledger: open.

    Raises:
        ConfigError: a line is no result.
    """

    def __init__(self, directory: Path, ledger: Ledger) -> None:
        self.directory, self._ledger = directory, ledger
        self._redact = Redactor()
        self._of: dict[tuple[str, int], SampleResult] = {}
        for key, record in ledger.done.items():
            try:
                result = SampleResult.from_json(record)
            except ValueError as error:
                raise ConfigError("--out", str(directory / _FILE), f"line of {key}: {error}") from error
            self._of[result.key] = result

    @classmethod
    @contextmanager
    def opened(cls, directory: Path) -> Iterator[Results]:
        """The journal of a directory, made if it is not there, for this process alone.

        Raises:
            ConfigError: another process is writing there, a line is no result, or it cannot be written.
        """
        with Ledger(directory / _FILE, "--out") as ledger:
            yield cls(directory, ledger)

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
        """Append one result; it is in the file when this returns.

        Raises:
            OSError: it cannot be written.
        """
        self._ledger.add("{}@{}".format(*result.key), self._redact.data(result.to_json()))
        self._of[result.key] = result
