"""How large images are and what building them would take, said before it is done."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, field

from swe_plugin.environments.images.registry import LOOK, Reference
from swe_plugin.environments.images.sources import Source, Step, open_source
from swe_plugin.environments.images.store import ImageStore
from swe_plugin.errors import EnvironmentStartError

__all__ = ["Estimate", "estimate"]

_LOOKS = 8
_NOT_THERE = "has no such image"
"""Said of one image; whatever else a registry says holds for its other images as well."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Layers of the bases of some images, each counted once; layers on top (repositories, recipes) are not known yet.

    Attributes:
        n_layers: all of them.
        n_present: those that are in the store.
        present_bytes: what these take there, unpacked.
        total_bytes: of all layers, as they are kept where they come from (mostly compressed; unpacked two or three
            times as much).
        read_bytes: what of it has to be read, since the store lacks it.
        n_unknown: layers whose size nobody says.
        failed: base -> why nothing is known of it.
    """

    n_layers: int
    n_present: int
    present_bytes: int
    total_bytes: int
    read_bytes: int
    n_unknown: int
    failed: dict[str, str] = field(default_factory=dict)

    def __add__(self, other: Estimate) -> Estimate:
        """Of both; they should have no layer in common."""
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Estimate(*(mine | theirs if isinstance(mine, dict) else mine + theirs for mine, theirs in pairs))


def estimate(bases: Iterable[str], store: ImageStore, *, squash: bool) -> Estimate:
    """Look at bases, which may ask registries for manifests, and at the store. Blocking.

    A registry that does not answer, or lets nobody in, is not asked again.
    """
    looks, failed, steps = _Looks(store, squash), dict[str, str](), dict[str, Step]()
    with ThreadPoolExecutor(_LOOKS) as threads:
        for base, found in zip(bases := sorted(set(bases)), threads.map(looks.look, bases), strict=True):
            if isinstance(found, str):
                failed[base] = found
            else:
                steps |= {step.key: step for step in found.steps}
    missing = [step for step in steps.values() if not store.has(step.key)]
    present = [entry.size_bytes for entry in store.entries() if entry.key in steps]
    return Estimate(
        len(steps),
        len(steps) - len(missing),
        sum(present),
        sum(step.size_bytes for step in steps.values()),
        sum(step.size_bytes for step in missing),
        sum(not step.size_bytes for step in missing),
        failed,
    )


@dataclass(frozen=True, slots=True)
class _Looks:
    store: ImageStore
    squash: bool
    silent: dict[str, str] = field(default_factory=dict)  # host -> what is wrong with it

    def look(self, base: str) -> Source | str:
        """What a base is made of, or why that is not known."""
        host = ""
        with contextlib.suppress(EnvironmentStartError):
            host = Reference.parse(base.removeprefix("docker:")).host if base.startswith("docker:") else ""
        try:
            attempts = 0 if host in self.silent else LOOK
            return open_source(base, self.store.root / "references", squash=self.squash, attempts=attempts)
        except EnvironmentStartError as error:
            if host and _NOT_THERE not in str(error):
                self.silent.setdefault(host, str(error))
            return self.silent.get(host, str(error))
