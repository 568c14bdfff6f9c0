"""`Movable`: environments that can go over to another process of the node, and what goes over."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from swe_plugin.environments.leases import ResourceLease

__all__ = ["Movable", "Parcel"]


@dataclass(slots=True)
class Parcel:
    """An environment on its way: who has the descriptors has the environment, and it ends with them.

    Attributes:
        state: JSON that the taker's object needs.
        descriptors: owned by the parcel; the last one is the lock of the lease that its resources are recorded under,
            so that no reaper takes them from whoever has it.
    """

    state: dict[str, Any]
    descriptors: list[int] = field(default_factory=list)

    def lease(self) -> ResourceLease:
        """The lease, from now on this process's too."""
        return ResourceLease.joined(self.state["lease"], self.descriptors.pop())

    def close(self) -> None:
        """Let go of the descriptors. Idempotent."""
        while self.descriptors:
            os.close(self.descriptors.pop())


@runtime_checkable
class Movable(Protocol):
    """What a backend may offer beside `Environment`. Neither is called while a command runs."""

    async def give(self) -> Parcel:
        """Turn a started environment into a parcel. From then on `stop` only lets go of what this object still holds;
        the environment goes on if another process takes the parcel, and ends otherwise.

        Raises:
            EnvironmentUnavailable: it is dead.
        """

    async def take(self, parcel: Parcel) -> None:
        """Be what another object of the same spec gave, instead of `start`. What is not taken out of `parcel` is
        closed by the caller; after a failure `stop` ends the environment.

        Raises:
            EnvironmentStartError: it cannot be had here.
        """
