"""`SingleUse`: the part of `Environment.start` that is the same for every backend."""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Sequence

from swe_plugin.environments.base import Environment, EnvironmentSpec
from swe_plugin.errors import EnvironmentStartError, EnvironmentUnavailable

__all__ = ["SingleUse"]


class SingleUse(Environment):
    """Starts once, within its time, and stops what did not start; subclasses implement `_launch` and `stop`."""

    def __init__(self, spec: EnvironmentSpec) -> None:
        self.spec = spec
        self._used = False

    async def start(self) -> None:
        """See `Environment.start`."""
        if self._used:
            raise self._start_error("an environment is started once")
        self._used = True
        try:
            async with asyncio.timeout(self.spec.limits.start_timeout_s):
                await self._launch()
        except TimeoutError:
            await self.stop()
            raise self._start_error(f"not ready after {self.spec.limits.start_timeout_s:g} s") from None
        except BaseException:
            await self.stop()
            raise

    @abc.abstractmethod
    async def _launch(self) -> None:
        """Make the environment."""

    @staticmethod
    def _check_argv(argv: Sequence[str]) -> None:
        if not argv or any("\0" in word for word in argv):
            raise ValueError(f"argv={argv!r}: needs a program, and arguments without NUL bytes")

    def _start_error(self, reason: str) -> EnvironmentStartError:
        return EnvironmentStartError(f"{self.spec.label or type(self).__name__}: {reason}")

    def _unavailable(self, reason: str = "the environment is not running") -> EnvironmentUnavailable:
        return EnvironmentUnavailable(f"{self.spec.label or type(self).__name__}: {reason}")
