"""The parquet files that verl's dataset reads and our agent loop expects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from swe_plugin.types import Task

__all__ = ["TrainingFile"]

_ROWS_AT_ONCE = 64


class TrainingFile:
    """Rows are written in groups as they come, so memory stays flat; the file appears whole, when it is closed.

    Columns: ``prompt`` (chat messages), ``data_source``, ``agent_name``, ``task`` (`Task.to_json`), ``extra_info``
    (``index`` in the file, ``instance_id``). Use as a context manager; after an error nothing is left.

    Args:
        path: to write; replaced if it exists.
        data_source: name under which held-out rates are logged.

    Attributes:
        rows: written up to now.
    """

    def __init__(self, path: Path, data_source: str) -> None:
        self._path, self._data_source = path, data_source
        self._partial = path.with_name(f".{path.name}.partial")
        self._waiting: list[dict[str, Any]] = []
        self._writer: Any = None
        self.rows = 0

    def add(self, task: Task, messages: Sequence[Mapping[str, str]] = ()) -> None:
        """Append one row.

        Args:
            task: what to attempt.
            messages: of ``prompt``; default the problem statement. What an agent is told comes from its scaffold.

        Raises:
            UnicodeEncodeError: a text of the task cannot be stored.
        """
        text = task.to_json()
        text.encode()
        self._waiting.append(
            {
                "prompt": list(messages) or [{"role": "user", "content": task.problem_statement}],
                "data_source": self._data_source,
                "agent_name": "swe",
                "task": text,
                "extra_info": {"index": self.rows, "instance_id": task.instance_id},
            }
        )
        self.rows += 1
        if len(self._waiting) >= _ROWS_AT_ONCE:
            self._flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._flush()
        if self._writer is not None:
            self._writer.close()
        if kind is None:
            self._partial.replace(self._path)
        else:
            self._partial.unlink(missing_ok=True)

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        message = pa.struct([("role", pa.string()), ("content", pa.string())])
        schema = pa.schema(
            [
                ("prompt", pa.list_(message)),
                *((name, pa.string()) for name in ("data_source", "agent_name", "task")),
                ("extra_info", pa.struct([("index", pa.int64()), ("instance_id", pa.string())])),
            ]
        )
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._partial, schema)
        if self._waiting:
            self._writer.write_table(pa.Table.from_pylist(self._waiting, schema))
            self._waiting.clear()
