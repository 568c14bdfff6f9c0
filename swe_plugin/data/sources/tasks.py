"""Rows in our own schema: the documented form for datasets of your own."""

from __future__ import annotations

from typing import ClassVar

from swe_plugin.data.rows import RowError, task_from_row
from swe_plugin.data.sources.dropped import Dropped, Reason
from swe_plugin.data.sources.row import Row
from swe_plugin.data.sources.source import Source
from swe_plugin.types import Task

__all__ = ["Tasks"]


class Tasks(Source):
    """Columns are the fields of `swe_plugin.types.Task`; see docs/datasets.md."""

    needs_base: ClassVar[bool] = False

    def task(self, row: Row) -> Task:
        """See `Source.task`."""
        try:
            return task_from_row(row.values)
        except RowError as error:
            raise Dropped(Reason.BAD_ROW, str(error)) from error
