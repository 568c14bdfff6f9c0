"""`Lease`: an environment that is somebody's for a while (the lease on disk of its resources is in `leases`)."""

from __future__ import annotations

from dataclasses import dataclass

from swe_plugin.environments.base import Environment
from swe_plugin.environments.slot_file import Slot

__all__ = ["Lease"]


@dataclass(slots=True)
class Lease:
    """A started environment and what it cost.

    Attributes:
        environment: ready to use.
        slot: of the capacity it counts against.
        wait_s: seconds waited for a slot.
        start_s: seconds waited for its start.
        hidden_s: seconds of its start that were over before anybody asked for it.
        began: Unix time at which its start began.
    """

    environment: Environment
    slot: Slot
    wait_s: float
    start_s: float
    hidden_s: float = 0.0
    began: float = 0.0
