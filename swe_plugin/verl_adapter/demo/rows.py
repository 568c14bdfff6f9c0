"""Demo tasks as the parquet files that verl's dataset reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from swe_plugin.types import Task
from swe_plugin.verl_adapter.demo.episodes import first_messages

__all__ = ["write_rows"]


def write_rows(tasks: Sequence[Task], path: Path) -> None:
    """One row per task, in this order: prompt, data_source, agent_name, task, extra_info."""
    rows = [
        {
            "prompt": first_messages(task),
            "data_source": "swe_demo",
            "agent_name": "swe",
            "task": task.to_json(),
            "extra_info": {"index": index, "instance_id": task.instance_id},
        }
        for index, task in enumerate(tasks)
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)
