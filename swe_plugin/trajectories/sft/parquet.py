"""Rows in a parquet file, which `verl_adapter.sft_dataset` gives to verl's SFT trainer."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from swe_plugin.trajectories.sft.convert import SftRow

__all__ = ["write_rows"]

_ROWS = 256
"""Rows of one row group, so that any number of trajectories passes through a bounded memory."""


def write_rows(path: Path, rows: Iterable[SftRow]) -> int:
    """Write rows as they come; the file appears whole or not at all. Returns how many."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [
            ("name", pa.string()),
            ("input_ids", pa.list_(pa.int32())),
            ("loss_mask", pa.list_(pa.int8())),
            ("log_probs", pa.list_(pa.float32())),
            ("reward", pa.float64()),
        ]
    )
    count, rows = 0, iter(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    try:
        with pq.ParquetWriter(partial, schema) as writer:
            while group := list(islice(rows, _ROWS)):
                columns = {name: [getattr(row, name) for row in group] for name in schema.names}
                writer.write_table(pa.table(columns, schema=schema))
                count += len(group)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return count
