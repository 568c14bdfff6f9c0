"""R2E-Gym. https://r2e-gym.github.io"""

from __future__ import annotations

from typing import ClassVar

from swe_plugin.data.sources.dropped import Dropped, Reason
from swe_plugin.data.sources.row import Row
from swe_plugin.data.sources.source import Source
from swe_plugin.types import GradingSpec, Image, Task, TestStatus

__all__ = ["R2EGym"]

_RUN = "[ -e r2e_tests ] || ln -s /r2e_tests r2e_tests; bash run_tests.sh"


class R2EGym(Source):
    """No F2P and P2P: ``expected_output_json`` says which status every test has once the commit's change is there, and
    each has to be met exactly, FAILED included. Tests lie in the image, at ``/r2e_tests``."""

    hub: ClassVar[str] = "R2E-Gym/R2E-Gym-Subset"
    split: ClassVar[str] = "train"
    needs_fail_to_pass: ClassVar[bool] = False

    def task(self, row: Row) -> Task:
        """See `Source.task`; an instance has no id of its own, so it gets one of repository and commit."""
        repo, commit = row.text("repo_name"), row.text("commit_hash")
        expected = _expected(row)
        return Task(
            instance_id=f"{repo}__{commit}" if repo and commit else "",
            problem_statement=row.text("problem_statement"),
            repo=repo,
            image=Image(base=f"docker:{row.text('docker_image')}"),
            grading=GradingSpec(
                command=("bash", "-c", _RUN),
                parser="pytest_dotted",
                protected=("run_tests.sh", "r2e_tests"),
                pass_to_pass=tuple(expected),
                expected={test_id: status for test_id, status in expected.items() if status != TestStatus.PASSED},
                timeout_s=900.0,
            ),
            base_commit=f"{commit}^" if commit else "",
        )


def _expected(row: Row) -> dict[str, str]:
    """Status by id; what follows an id behind `` - `` is pytest's message."""
    statuses = row.mapping("expected_output_json")
    for test_id, status in statuses.items():
        if status not in TestStatus.__members__:
            raise Dropped(Reason.BAD_TESTS, f"column expected_output_json: {test_id!r} is expected to be {status!r}")
    return {name: status for key, status in statuses.items() if (name := key.partition(" - ")[0])}
