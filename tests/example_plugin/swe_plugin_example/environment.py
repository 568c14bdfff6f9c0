"""A backend made of this machine: real commands and real files, and no isolation whatever."""

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from swe_plugin.environments.base import EnvironmentSpec
from swe_plugin.environments.by_exec import ExecEnvironment
from swe_plugin.environments.process import run_process
from swe_plugin.errors import EnvironmentStartError, EnvironmentUnavailable
from swe_plugin.types import ExecResult


class LocalEnvironment(ExecEnvironment):
    """Commands of this machine in a temporary directory that stands for `/`.

    Of a command only its directory, and words and variables that begin with the work directory or `/tmp`, are led
    there; everything else is the host's. It isolates nothing and limits nothing but time and output: for tests and for
    code you trust.
    """

    def __init__(self, spec: EnvironmentSpec) -> None:
        super().__init__(spec)
        self._root = ""

    async def start(self) -> None:
        """Make the directory and, from ``image.files``, the repository in it."""
        if self.spec.image.base != "host":
            raise EnvironmentStartError(f"example_local: image.base={self.spec.image.base!r}: only host")
        self._root = tempfile.mkdtemp(prefix="swe-example-")
        await self.make_repository()

    async def stop(self) -> None:
        """Remove the directory."""
        if self._root:
            shutil.rmtree(self._root, ignore_errors=True)

    async def is_alive(self) -> bool:
        """Whether the directory is there."""
        return bool(self._root) and Path(self._root).is_dir()

    async def exec(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
        stdin: bytes = b"",
    ) -> ExecResult:
        """Run a command of the host."""
        if not await self.is_alive():
            raise EnvironmentUnavailable(f"{self.spec.label}: not running")
        variables = {**self.spec.env, **(env or {})}
        variables["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), variables.get("PATH", os.defpath)])
        return await run_process(
            [self._outside(word) for word in argv],
            cwd=self._outside(cwd or self.spec.image.workdir),
            env={key: self._outside(value) for key, value in variables.items()},
            timeout_s=timeout_s,
            stdin=stdin,
            output_bytes=self.spec.limits.output_bytes,
        )

    def _outside(self, text: str) -> str:
        for inside in (self.spec.image.workdir, "/tmp"):
            if text == inside or text.startswith(f"{inside}/"):
                return self._root + text
        return text
