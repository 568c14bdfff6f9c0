"""SWE-Gym. https://huggingface.co/datasets/SWE-Gym/SWE-Gym"""

from __future__ import annotations

from typing import ClassVar

from swe_plugin.data.sources.row import Row
from swe_plugin.data.sources.swe_bench import SweBench

__all__ = ["SweGym"]


class SweGym(SweBench):
    """SWE-bench's columns with test lists that are lists, and an image rule of its own: ``_s_`` for ``__``."""

    hub: ClassVar[str] = "SWE-Gym/SWE-Gym"
    split: ClassVar[str] = "train"

    def image(self, row: Row) -> str:
        """Docker reference of a row's image."""
        key = row.text("instance_id").lower().replace("__", "_s_")
        return f"xingyaoww/sweb.eval.x86_64.{key}:latest" if key else ""
