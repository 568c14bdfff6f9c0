"""SWE-smith. https://swesmith.com"""

from __future__ import annotations

import shlex
from typing import ClassVar

from swe_plugin.data.sources.pytest_command import CONDA, pytest_command, test_files
from swe_plugin.data.sources.reverse import reverse_patch
from swe_plugin.data.sources.row import Row
from swe_plugin.data.sources.source import Source
from swe_plugin.types import GradingSpec, Image, Task

__all__ = ["SweSmith"]


class SweSmith(Source):
    """A row's ``patch`` makes the bug, so the reference fix is its reverse. The buggy tree is a branch of the mirror
    named by ``repo``; its name is the instance id unless the row has a column ``branch``, which may be empty."""

    hub: ClassVar[str] = "SWE-bench/SWE-smith"
    split: ClassVar[str] = "train"

    def task(self, row: Row) -> Task:
        """See `Source.task`."""
        f2p, p2p = row.tests("FAIL_TO_PASS"), row.tests("PASS_TO_PASS")
        files = test_files((*f2p, *p2p))
        return Task(
            instance_id=row.text("instance_id"),
            problem_statement=row.text("problem_statement"),
            repo=row.text("repo"),
            image=Image(base=f"docker:{row.text('image_name')}"),
            grading=GradingSpec(
                command=pytest_command(files, prepare=f"{CONDA} && {_restore(files)}"),
                parser="pytest",
                protected=files,
                fail_to_pass=f2p,
                pass_to_pass=p2p,
                timeout_s=900.0,
            ),
            base_commit=row.text("branch") if "branch" in row.values else row.text("instance_id"),
            gold_patch=reverse_patch(row.text("patch")),
            metadata=row.kept("created_at", "strategy"),
        )


def _restore(files: tuple[str, ...]) -> str:
    """The last commit of a branch takes the tests away from the agent; the one before it still has them."""
    return f'for file in {shlex.join(files)}; do git checkout -q HEAD~1 -- "$file"; done; :'
