"""Where this package keeps its state on a node: images, leases, caches."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["home"]


def home() -> Path:
    """``$SWE_PLUGIN_HOME``, else ``$XDG_CACHE_HOME/swe-plugin``, else ``~/.cache/swe-plugin``; made on first use."""
    chosen = os.environ.get("SWE_PLUGIN_HOME")
    path = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "swe-plugin"
    path.mkdir(parents=True, exist_ok=True)
    return path.absolute()
