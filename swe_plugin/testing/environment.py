"""`FaultyEnvironment`: any backend, with faults; registered as ``faulty``."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from swe_plugin.environments.base import Environment, EnvironmentSpec
from swe_plugin.errors import EnvironmentStartError, EnvironmentUnavailable
from swe_plugin.plugins import load_plugins
from swe_plugin.testing.faults import Fault, Faults
from swe_plugin.types import ExecResult, Usage

__all__ = ["FaultyEnvironment"]

_OWN = ("of", "seed", "rates")
_PLACES = range(12)


class FaultyEnvironment(Environment):
    """An environment of another backend that breaks as `Faults` has drawn for its label.

    ``swe.environment.backend=faulty`` with the options ``of`` (backend inside, ``sandbox``), ``seed`` and ``rates``
    (fault -> probability); all other options are the inner backend's.

    Args:
        spec: as any backend gets it.
        inside: instead of the backend that the options name.
        faults: instead of the seed and the rates of the options.

    Attributes:
        fault: what will break, or None.
    """

    def __init__(
        self, spec: EnvironmentSpec, *, inside: Environment | None = None, faults: Faults | None = None
    ) -> None:
        own = {key: value for key, value in spec.options.items() if key in _OWN}
        others = {key: value for key, value in spec.options.items() if key not in _OWN}
        self.spec = spec
        self._inside = inside or _backend(str(own.get("of", "sandbox")))(dataclasses.replace(spec, options=others))
        drawn = faults or _faults(int(own.get("seed", 0)), tuple(sorted(dict(own.get("rates", {})).items())))
        self.fault = drawn.environment(spec.label)
        self._left = drawn.place(f"{spec.label} environment", _PLACES)
        self._dead = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._inside, name)  # what a backend has beyond the contract

    async def prepare(self) -> None:
        """As the inner environment's."""
        await self._inside.prepare()

    async def start(self) -> None:
        """Start the inner environment, unless the fault is one of starting."""
        match self.fault:
            case Fault.START_FAILS:
                raise EnvironmentStartError(f"{self.spec.label}: injected {self.fault}")
            case Fault.START_BUG:
                raise KeyError(f"injected {self.fault}")
            case Fault.START_HANGS:
                await asyncio.Event().wait()
        await self._inside.start()

    async def stop(self) -> None:
        """Stop the inner environment; raises afterwards if that is the fault."""
        await self._inside.stop()
        if self.fault is Fault.STOP_FAILS:
            raise RuntimeError(f"injected {self.fault}")

    async def exec(self, argv: Sequence[str], **options: Any) -> ExecResult:
        """As the inner environment's, unless the fault strikes here."""
        await self._strike()
        return await self._inside.exec(argv, **options)

    async def shell(self, script: str, *, timeout_s: float = 60.0) -> ExecResult:
        """As the inner environment's, unless the fault strikes here."""
        await self._strike()
        return await self._inside.shell(script, timeout_s=timeout_s)

    async def read_file(self, path: str) -> bytes:
        """As the inner environment's, unless the fault strikes here."""
        await self._strike()
        return await self._inside.read_file(path)

    async def write_file(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        """As the inner environment's, unless the fault strikes here."""
        await self._strike()
        await self._inside.write_file(path, content, mode=mode)

    async def upload(self, source: Path, target: str) -> None:
        """As the inner environment's, unless the fault strikes here."""
        await self._strike()
        await self._inside.upload(source, target)

    async def download(self, source: str, target: Path) -> None:
        """As the inner environment's, unless the fault strikes here."""
        await self._strike()
        await self._inside.download(source, target)

    async def is_alive(self) -> bool:
        """Whether it was not killed, and the inner one lives."""
        return not self._dead and await self._inside.is_alive()

    async def usage(self) -> Usage | None:
        """Of the inner environment."""
        return await self._inside.usage()

    async def _strike(self) -> None:
        if self._dead:
            raise EnvironmentUnavailable(f"{self.spec.label}: injected {self.fault}: it is gone")
        if self.fault not in (Fault.COMMAND_DIES, Fault.COMMAND_BUG):
            return
        self._left -= 1
        if self._left >= 0:
            return
        if self.fault is Fault.COMMAND_BUG:
            raise RuntimeError(f"injected {self.fault}")
        self._dead = True
        await self._inside.stop()
        raise EnvironmentUnavailable(f"{self.spec.label}: injected {self.fault}")


def _backend(name: str) -> Any:
    return load_plugins().load("environments", name, "swe.environment.options.of")


@lru_cache
def _faults(seed: int, rates: tuple[tuple[str, float], ...]) -> Faults:
    """One per process and setting, so that a second environment of a label draws again."""
    return Faults(seed, dict(rates))
