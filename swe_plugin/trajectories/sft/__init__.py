"""Trajectories as rows for supervised training."""

from swe_plugin.trajectories.sft.convert import Converter, Problem, SftRow
from swe_plugin.trajectories.sft.parquet import write_rows

__all__ = ["Converter", "Problem", "SftRow", "write_rows"]
