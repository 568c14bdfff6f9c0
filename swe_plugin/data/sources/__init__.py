"""Published datasets: how their rows become tasks (`Source`), and why a row is left out (`Dropped`)."""

from __future__ import annotations

from swe_plugin.data.sources.dropped import Dropped, Reason
from swe_plugin.data.sources.row import Row
from swe_plugin.data.sources.source import Source

__all__ = ["Dropped", "Reason", "Row", "Source"]
