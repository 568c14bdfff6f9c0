"""What building images would take, said before it is done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from swe_plugin.environments.images.sources import Step, open_source
from swe_plugin.environments.images.store import ImageStore
from swe_plugin.errors import EnvironmentStartError

__all__ = ["Estimate", "estimate"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Layers of the bases of some images, each counted once; layers on top (repositories, recipes) are not known yet.

    Attributes:
        n_layers: all of them.
        n_present: those that are in the store.
        read_bytes: what has to be read for the others, as it is kept (mostly compressed; unpacked two or three times
            as much).
        n_unknown: layers whose size nobody says.
    """

    n_layers: int
    n_present: int
    read_bytes: int
    n_unknown: int


def estimate(bases: Iterable[str], store: ImageStore, *, squash: bool) -> Estimate:
    """Look at bases and at the store. Bases that cannot be had are left out: building them says why. Blocking."""
    steps: dict[str, Step] = {}
    for base in set(bases):
        try:
            steps |= {step.key: step for step in open_source(base, store.root / "references", squash=squash).steps}
        except EnvironmentStartError:
            continue
    missing = [step for step in steps.values() if not store.has(step.key)]
    return Estimate(
        len(steps),
        len(steps) - len(missing),
        sum(step.size_bytes for step in missing),
        sum(not step.size_bytes for step in missing),
    )
