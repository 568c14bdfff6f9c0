"""`Source`: what a dataset has to say about its rows."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any, ClassVar

from swe_plugin.data.sources.dropped import Dropped, Reason
from swe_plugin.data.sources.row import Row
from swe_plugin.types import Task

__all__ = ["Source"]


class Source(abc.ABC):
    """One dataset. A subclass says in `task` which column is what; the checks that hold for all are here.

    Attributes:
        hub: name of the dataset on the Hugging Face hub, read where no file is given; empty: there is none.
        split: of `hub`.
        needs_base: a row without base commit (or branch) is left out.
        needs_fail_to_pass: so is one without a test that has to begin to pass: doing nothing would solve it.
    """

    hub: ClassVar[str] = ""
    split: ClassVar[str] = "test"
    needs_base: ClassVar[bool] = True
    needs_fail_to_pass: ClassVar[bool] = True

    @abc.abstractmethod
    def task(self, row: Row) -> Task:
        """The task of one row.

        Raises:
            Dropped: it has none.
        """

    def read(self, values: Mapping[str, Any]) -> Task:
        """The task of one row, checked.

        Raises:
            Dropped: it has none, or one that cannot be used.
        """
        task = self.task(Row(values))
        grading = task.grading
        for missing, reason in (
            (not task.instance_id.strip(), Reason.BAD_ROW),
            (not task.problem_statement.strip(), Reason.EMPTY_STATEMENT),
            (self.needs_base and not task.base_commit and not task.image.files, Reason.NO_BASE),
            (not (grading.fail_to_pass or grading.pass_to_pass), Reason.NO_TESTS),
            (self.needs_fail_to_pass and not grading.fail_to_pass, Reason.NO_TESTS),
            (not (task.image.files or task.image.repository or task.image.base.partition(":")[2]), Reason.NO_IMAGE),
            (not grading.command, Reason.NO_COMMAND),
        ):
            if missing:
                raise Dropped(reason, "column instance_id: empty" if reason is Reason.BAD_ROW else "")
        return task
