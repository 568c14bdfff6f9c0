"""`TokenRows`: the rows of `swe-plugin convert` for verl's SFT trainer, token for token.

verl's own dataset renders each message alone and encodes it again; these rows already are what is to be trained.
Select it with ``data.custom_cls.path=pkg://swe_plugin.verl_adapter.sft_dataset data.custom_cls.name=TokenRows``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.data import Dataset

from swe_plugin.errors import ConfigError

__all__ = ["TokenRows"]

_COLUMNS = ["input_ids", "loss_mask"]


class TokenRows(Dataset):  # type: ignore[misc]
    """Rows as nested tensors (``data.pad_mode=no_padding``).

    Args:
        parquet_files: written by `swe-plugin convert`.
        tokenizer: not needed.
        config: verl's ``data`` section.
        processor: not needed.
        max_samples: first rows to take; -1 takes all.

    Raises:
        ConfigError: another padding is asked for, or a row is longer than ``data.max_length``: it is never cut.
    """

    def __init__(
        self,
        parquet_files: str | Sequence[str],
        tokenizer: Any,
        config: Any,
        processor: Any = None,
        max_samples: int = -1,
    ) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if config.get("pad_mode", "no_padding") != "no_padding":
            raise ConfigError("data.pad_mode", config.get("pad_mode"), "must be no_padding for these rows")
        paths = [parquet_files] if isinstance(parquet_files, str) else list(parquet_files)
        table = pa.concat_tables([pq.read_table(path, columns=_COLUMNS) for path in paths])
        self._table = table if max_samples < 0 else table.slice(0, max_samples)
        limit = int(config.get("max_length", 0))
        longest = max((len(ids) for ids in self._table["input_ids"]), default=0)
        if limit and longest > limit:
            raise ConfigError(
                "data.max_length", limit, f"a row has {longest} tokens; `convert --max-length` leaves it out"
            )

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        ids, mask = (torch.tensor(self._table[name][index].as_py(), dtype=torch.long) for name in _COLUMNS)
        return {"input_ids": ids, "position_ids": torch.arange(len(ids)), "loss_mask": mask}
