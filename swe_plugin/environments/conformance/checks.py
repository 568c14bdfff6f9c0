"""What every check stands on: the backend under test, its specs, and one shared environment per class."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import pytest
import pytest_asyncio

from swe_plugin.environments.base import Capability, Environment, EnvironmentLimits, EnvironmentSpec
from swe_plugin.environments.factory import AGENT_ENV
from swe_plugin.types import ExecResult, Image

__all__ = ["FILES", "LOOP_HELD_S", "OWN_SESSION", "Checks", "Shared", "bash", "gone", "needs", "running"]

FILES = {"calc.py": "def add(a, b):\n    return a - b\n", "pkg/data.txt": "one\ntwo\n"}
_SOON_S = 3.0
LOOP_HELD_S = 0.5
"""How long a call may sleep on the event loop, all told."""
_NOTICED_WITHIN_S = 20.0
OWN_SESSION = "$(command -v setsid)"
"""Before a command in a script: run it in a session of its own, if the image can."""
_LIST = "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; echo; done 2>/dev/null"
_Check = TypeVar("_Check", bound=Callable[..., Any])


def needs(*capabilities: Capability) -> Callable[[_Check], _Check]:
    """Skip a check, with the declared reason, for a backend that lacks one of `capabilities`."""

    def mark(check: _Check) -> _Check:
        check.needs = capabilities  # type: ignore[attr-defined]
        return check

    return mark


async def bash(environment: Environment, script: str, **options: Any) -> ExecResult:
    """Run a script in a fresh bash, within 30 s unless told otherwise."""
    return await environment.exec(["bash", "-c", script], **{"timeout_s": 30.0, **options})


async def running(environment: Environment, text: str) -> bool:
    """Whether a process has `text` in its command line, now or very soon (a new one takes a moment to get it)."""
    return await _becomes(environment, text, True)


async def gone(environment: Environment, text: str) -> bool:
    """Whether no process has `text` in its command line, now or very soon (a killed one takes a moment to go)."""
    return await _becomes(environment, text, False)


async def _becomes(environment: Environment, text: str, wanted: bool) -> bool:
    deadline = time.monotonic() + _SOON_S
    while (text in (await environment.exec(["bash", "-c", _LIST])).stdout) is not wanted:
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.05)
    return True


@dataclass(slots=True)
class Shared:
    """The environment that the cheap checks of one class share."""

    environment: Environment | None = None

    async def alive(self, make: Callable[[], Environment]) -> Environment:
        """The environment, replaced if a failed check left it dead."""
        if self.environment is None or not await self.environment.is_alive():
            await self.stop()
            self.environment = make()
            await self.environment.start()
        return self.environment

    async def stop(self) -> None:
        """Stop it."""
        environment, self.environment = self.environment, None
        if environment is not None:
            await environment.stop()


class Checks:
    """Settings of a subclass, and the fixtures.

    Attributes:
        backend: the class under test.
        image: with bash, coreutils and git, and with `FILES` as its repository.
        unusable_image: one whose start must fail.
        options: ``spec.options`` of every environment.
        limits: of every environment; some checks lower one of them.
        crowd: files of the largest tree that is sent in and fetched; about a minute for as many as this.
    """

    pytestmark = pytest.mark.asyncio(loop_scope="class")

    backend: ClassVar[type[Environment]]
    image: ClassVar[Image] = Image(files=FILES)
    unusable_image: ClassVar[Image] = Image("rootfs:/nonexistent/rootfs")
    options: ClassVar[Mapping[str, Any]] = {}
    limits: ClassVar[EnvironmentLimits] = EnvironmentLimits(memory_mib=256, pids=64, disk_mib=64)
    crowd: ClassVar[int] = 100_000

    def lacks(self) -> Mapping[Capability, str]:
        """What is not checked, and why. Override it where that depends on the machine."""
        return self.backend.lacks

    async def kill(self, environment: Environment) -> None:
        """End an environment from outside, as a crash would. Checks of dead environments need it."""
        pytest.skip(f"{type(self).__name__}.kill does not say how to kill a {self.backend.__name__}")

    async def crash(self, environment: Environment) -> None:
        """`kill`, and wait until it is noticed."""
        await self.kill(environment)
        async with asyncio.timeout(_NOTICED_WITHIN_S):
            while await environment.is_alive():  # noqa: ASYNC110 - nothing to wait on: the contract has no event
                await asyncio.sleep(0.02)

    def spec(self, image: Image | None = None, *, env: Mapping[str, str] = AGENT_ENV, **limits: Any) -> EnvironmentSpec:
        """A spec; `limits` replace single ones of the class."""
        bounds = replace(self.limits, **limits)
        return EnvironmentSpec(image or self.image, bounds, env, label="conformance", options=self.options)

    def make(self, image: Image | None = None, **changes: Any) -> Environment:
        """An environment that is not started."""
        return self.backend(self.spec(image, **changes))  # type: ignore[call-arg]

    @pytest.fixture(autouse=True)
    def _skip_what_is_lacking(self, request: pytest.FixtureRequest) -> None:
        lacks = self.lacks()
        for capability in getattr(request.function, "needs", ()):
            if capability in lacks:
                pytest.skip(f"{self.backend.__name__} lacks {capability}: {lacks[capability]}")

    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    @classmethod
    async def shared(cls) -> AsyncIterator[Shared]:
        """Starts nothing by itself."""
        shared = Shared()
        yield shared
        await shared.stop()

    @pytest_asyncio.fixture(loop_scope="class")
    async def environment(self, shared: Shared) -> Environment:
        """The shared environment, alive, its shell in the work directory."""
        environment = await shared.alive(self.make)
        if Capability.PROCESSES not in self.lacks():
            await environment.shell(f"cd {self.image.workdir}")
        return environment
