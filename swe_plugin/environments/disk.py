"""Slots of the disk: how many images this node unpacks, builds or imports at once, over all processes and runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from swe_plugin.environments.slot_file import SlotFile, pool_directory
from swe_plugin.environments.slot_queue import SlotQueue

__all__ = ["disk_slot", "set_disk_slots"]

_settings = (2, 0.0)


def set_disk_slots(size: int, reserved: float) -> None:
    """Set this process's idea of the capacity (``swe.slots.io``, ``swe.slots.reserved``)."""
    global _settings
    _settings = (size, reserved)


@contextmanager
def disk_slot() -> Iterator[None]:
    """Hold one for the block. Blocking; not to be nested."""
    file = SlotFile(pool_directory("disk"))
    try:
        with SlotQueue(_settings[0], file, reserved=_settings[1]).acquire_blocking():
            yield
    finally:
        file.leave()
