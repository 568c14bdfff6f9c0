"""What making tasks came to."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from swe_plugin.synth.trial import Outcome
from swe_plugin.types import Task

__all__ = ["ProjectReport"]


@dataclass(slots=True)
class ProjectReport:
    """One project.

    Attributes:
        name: with its version.
        tests: that pass each time before a bug.
        unstable: that do not.
        tests_s: seconds of its suite.
        left_out: files that are no text.
        outcomes: bugs tried, by what came of them.
        failed: bugs of which nothing is known because infrastructure failed, with the reasons.
        tasks: made, in the order of their bugs.
    """

    name: str
    tests: int = 0
    unstable: int = 0
    tests_s: float = 0.0
    left_out: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    tasks: list[Task] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain values, for ``report.json`` and ``--json``."""
        metadata = [task.metadata for task in self.tasks]
        scores = [item["difficulty_score"] for item in metadata]
        return {
            "project": self.name,
            "tests": self.tests,
            "unstable_tests": self.unstable,
            "tests_seconds": round(self.tests_s, 3),
            "files_left_out": self.left_out,
            "tasks": len(self.tasks),
            "bugs_tried": sum(self.outcomes.values()),
            "outcomes": {str(outcome): count for outcome, count in self.outcomes.most_common()},
            "failed": dict(self.failed.most_common()),
            "kinds": dict(Counter(item["kind"] for item in metadata).most_common()),
            "difficulty": dict(Counter(item["difficulty"] for item in metadata).most_common()),
            "difficulty_median": round(statistics.median(scores), 3) if scores else None,
        }
