"""Software-engineering RL as plugins for verl."""

from __future__ import annotations

__version__ = "0.1.0.dev0"
