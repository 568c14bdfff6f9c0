"""Running the commands of an image's recipe: a sandbox whose changes go to a directory and become a layer."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from swe_plugin.environments.base import EnvironmentLimits, EnvironmentSpec
from swe_plugin.environments.factory import AGENT_ENV
from swe_plugin.environments.images import Layers
from swe_plugin.environments.sandbox.environment import SandboxEnvironment
from swe_plugin.environments.sandbox.owner import ZygoteProcess
from swe_plugin.environments.sandbox.zygote.plan import Plan
from swe_plugin.errors import EnvironmentStartError
from swe_plugin.types import Image

__all__ = ["run_in_layers"]

_LIMITS = EnvironmentLimits(memory_mib=8192, disk_mib=4096, pids=1024, cpus=64.0, start_timeout_s=60.0)
_TIMEOUT_S = 3600.0
_TAIL = 2000


def run_in_layers(
    layers: Sequence[Path], upper: Path, work: Path, script: str, *, workdir: str, env: Mapping[str, str]
) -> None:
    """See `images.Runner`. The commands have the host's network and own every file, as in mode ``user``."""
    asyncio.run(_run(_Build(tuple(layers), upper, work, workdir, env), script))


async def _run(build: _Build, script: str) -> None:
    async with build as environment:
        result = await environment.exec(["bash", "-c", f"set -e\n{script}\n"], timeout_s=_TIMEOUT_S)
    if result.exit_code:
        said = (result.stdout + result.stderr)[-_TAIL:].strip()
        reason = f"no end after {_TIMEOUT_S:g} s" if result.timed_out else f"exit code {result.exit_code}"
        raise EnvironmentStartError(f"a command of its recipe failed ({reason}): {said}")


class _Build(SandboxEnvironment):
    def __init__(self, layers: tuple[Path, ...], upper: Path, work: Path, workdir: str, env: Mapping[str, str]) -> None:
        super().__init__(
            EnvironmentSpec(
                Image(workdir=workdir), _LIMITS, {**AGENT_ENV, **env}, network="full", label=f"build {upper.name}"
            )
        )
        self._stack, self._upper, self._work = layers, upper, work

    def _hold_image(self) -> tuple[str, Layers]:
        return "user", Layers(self._stack)

    def _plan(self, mode: str, layers: Layers, zygote: ZygoteProcess) -> Plan:
        return dataclasses.replace(super()._plan(mode, layers, zygote), upper=str(self._upper), work=str(self._work))
