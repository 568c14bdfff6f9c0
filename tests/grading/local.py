"""An environment made of a temporary directory and real processes: no isolation, but real git and real files."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from swe_plugin.environments.base import Environment, EnvironmentSpec
from swe_plugin.environments.process import run_process
from swe_plugin.errors import EnvironmentUnavailable
from swe_plugin.types import Image

GIT = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"]


@cache
def _template(files: tuple[tuple[str, str], ...], prepare: str) -> Path:
    """A repository of `files`, made once per test process and copied by every environment."""
    root = Path(tempfile.mkdtemp(prefix="swe-local-template-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    for path, content in files:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content.encode())
    subprocess.run(["bash", "-ec", prepare], cwd=root, check=True, capture_output=True)
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "--allow-empty", "-m", "base"]):
        subprocess.run([*GIT, *command], cwd=root, check=True, capture_output=True)
    return root


class LocalEnvironment(Environment):
    """`image.files` in a repository with one commit; `workdir` inside stands for `root` outside.

    `spec.options["prepare"]`, a script, runs before the commit.
    """

    live = 0

    def __init__(self, spec: EnvironmentSpec) -> None:
        self.spec = spec
        self.top: Path | None = None
        self.dead = False

    @property
    def root(self) -> Path:
        assert self.top is not None
        return self.top / "testbed"

    async def start(self) -> None:
        self.top = Path(tempfile.mkdtemp(prefix="swe-local-"))
        LocalEnvironment.live += 1
        template = _template(tuple(self.spec.image.files.items()), self.spec.options.get("prepare", ""))
        shutil.copytree(template, self.root, symlinks=True)

    async def stop(self) -> None:
        if self.top is not None:
            LocalEnvironment.live -= 1
            shutil.rmtree(self.top, ignore_errors=True)
            self.top = None

    async def exec(self, argv, *, cwd=None, env=None, timeout_s=60.0, stdin=b""):
        self._check()
        variables = {"PATH": os.environ["PATH"], "HOME": str(self.top), **self.spec.env, **(env or {})}
        return await run_process(
            [self._inside_out(arg) for arg in argv],
            cwd=self._inside_out(cwd or self.spec.image.workdir),
            env={key: self._inside_out(value) for key, value in variables.items()},
            timeout_s=timeout_s,
            stdin=stdin,
            output_bytes=1 << 26,
        )

    async def shell(self, script, *, timeout_s=60.0):
        return await self.exec(["bash", "-c", script], timeout_s=timeout_s)

    async def read_file(self, path):
        self._check()
        return Path(self._inside_out(path)).read_bytes()

    async def write_file(self, path, content, *, mode=0o644):
        self._check()
        local = Path(self._inside_out(path))
        local.parent.mkdir(parents=True, exist_ok=True)
        local.write_bytes(content)
        local.chmod(mode)

    async def upload(self, source, target):
        raise NotImplementedError

    async def download(self, source, target):
        raise NotImplementedError

    async def is_alive(self):
        return self.top is not None and not self.dead

    def _check(self) -> None:
        if self.top is None or self.dead:
            raise EnvironmentUnavailable("the local environment is gone")

    def _inside_out(self, text: str) -> str:
        workdir = self.spec.image.workdir
        if text.startswith("/tmp/."):
            return f"{self.top}{text}"
        return str(self.root) + text[len(workdir) :] if text == workdir or text.startswith(f"{workdir}/") else text


def local(files: dict[str, str] | None = None, *, prepare: str = "") -> LocalEnvironment:
    """An unstarted environment of `files`."""
    return LocalEnvironment(EnvironmentSpec(Image(files=files or {}), options={"prepare": prepare}))
