"""How hard a task probably is, from what is known without an agent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from swe_plugin.synth.baseline import Baseline
from swe_plugin.synth.bugs import Bug
from swe_plugin.synth.project import Project
from swe_plugin.synth.trial import Trial

__all__ = ["Difficulty", "estimate_difficulty"]

_LARGE_LINES = 20_000
_WRONG_VALUE = ("assert", "AssertionError", "Failed: DID NOT RAISE")


@dataclass(frozen=True, slots=True)
class Difficulty:
    """An estimate, 0 (easy) to 1; not calibrated against any model.

    Attributes:
        score: mean of `parts`.
        parts: what it is made of, each 0 to 1.
    """

    score: float
    parts: Mapping[str, float]

    @property
    def label(self) -> str:
        """One of three words."""
        return "easy" if self.score < 0.4 else "medium" if self.score < 0.65 else "hard"


def estimate_difficulty(project: Project, baseline: Baseline, bug: Bug, trial: Trial, *, named: bool) -> Difficulty:
    """Estimate from the bug and from how its tests fail.

    Args:
        project: before the bug.
        baseline: which tests call the function.
        bug: what is wrong.
        trial: what tests said.
        named: whether the statement names the function.
    """
    calling = max(baseline.called.get(f"{bug.path}:{bug.first_line}", 0), len(trial.fail_to_pass))
    values = [message for _, message in trial.messages if message.startswith(_WRONG_VALUE) or not message]
    name = bug.function.rpartition(".")[2]
    direct = [
        test_id for test_id in trial.fail_to_pass if name.strip("_") in test_id or _mentions(project, test_id, name)
    ]
    parts = {
        "place": 0.0 if named else 1.0,
        "size": min(1.0, math.log(max(project.lines, 10)) / math.log(_LARGE_LINES)),
        "rare": 1.0 - len(trial.fail_to_pass) / calling,
        "no_traceback": len(values) / len(trial.messages) if trial.messages else 1.0,
        "indirect": 1.0 - len(direct) / len(trial.fail_to_pass),
    }
    return Difficulty(round(_mean(list(parts.values())), 3), {key: round(value, 3) for key, value in parts.items()})


def _mentions(project: Project, test_id: str, name: str) -> bool:
    """Whether the file of a test speaks of a function."""
    return f"{name}(" in project.files.get(test_id.partition("::")[0], "")


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
