"""What a project's tests do before anything is broken."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from swe_plugin.errors import ConfigError
from swe_plugin.synth.suite import Suite, SuiteRun

__all__ = ["Baseline", "measure_baseline"]

_MISSING_MODULE = re.compile(r"No module named '([\w.]+)'")


@dataclass(frozen=True, slots=True)
class Baseline:
    """The reference.

    Attributes:
        passing: ids that passed in every run, in a fixed order.
        unstable: ids that passed in some.
        called: ``path:first line`` of a function -> number of tests that call it.
        duration_s: of the slowest run without recording of calls.
        cpu_s: processor seconds of such a run.
    """

    passing: tuple[str, ...]
    unstable: tuple[str, ...]
    called: Mapping[str, int]
    duration_s: float
    cpu_s: float

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Baseline:
        """Inverse of `to_json`, also after JSON made lists of tuples."""
        names = ("passing", "unstable")
        return cls(**{**values, **{name: tuple(values[name]) for name in names}})


async def measure_baseline(suite: Suite, *, runs: int, timeout_s: float) -> Baseline:
    """Run the suite on the untouched project.

    Args:
        suite: of the project.
        runs: at least two; in one of them calls are recorded.
        timeout_s: of one run.

    Raises:
        ConfigError: no test passes each time; names the cause and the fix.
        EnvironmentStartError, EnvironmentUnavailable: infrastructure failed.
    """
    name = suite.project.name
    done = [await suite.run({}, label=f"{name}@calls", timeout_s=4 * timeout_s, calls=True)]
    for number in range(1, runs):
        done.append(await suite.run({}, label=f"{name}@before-{number}", timeout_s=timeout_s))
    if any(run.timed_out for run in done):
        raise ConfigError("--timeout", timeout_s, f"the tests of {name} take longer: give them more time")
    passing, ever = set.intersection(*(run.passed for run in done)), set.union(*(run.passed for run in done))
    if not passing:
        raise ConfigError("source", name, _why(done[-1]))
    return Baseline(
        tuple(sorted(passing)),
        tuple(sorted(ever - passing)),
        dict(done[0].record.called),
        max(run.duration_s for run in done[1:]),
        max(run.record.cpu_s for run in done[1:]),
    )


def _why(run: SuiteRun) -> str:
    if match := _MISSING_MODULE.search(run.output + "".join(run.record.failed.values())):
        return f"no test passes: there is no module {match[1]!r}; name its distribution: --with {match[1]}"
    return f"no test passes; pytest says: {' '.join(run.output.split())[-500:]}"
