"""Ways to get a workspace in which an agent's command runs, each from the same root directory."""

from __future__ import annotations

import abc
import asyncio
import itertools
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path
from typing import Any

from swe_plugin.environments import AGENT_ENV, EnvironmentLimits, EnvironmentSpec
from swe_plugin.environments.base import Environment
from swe_plugin.types import Image

WORKDIR = "/testbed"
DOCKER_TAG = "swe-plugin-bench:latest"
LIMITS = EnvironmentLimits(start_timeout_s=300)


class Contender(abc.ABC):
    """A life is `start`, which ends with the answer to a first command, then `stop`."""

    name: str
    most: int = 1 << 30
    """At once."""

    async def prepare(self, root: Path) -> str:
        """Do what is done once; returns why it cannot take part here, or nothing."""
        return ""

    @abc.abstractmethod
    async def start(self) -> Any:
        """Ready: ``echo ok`` was answered."""

    @abc.abstractmethod
    async def stop(self, handle: Any) -> None:
        """Gone, with all it wrote."""

    async def settle(self, at_once: int) -> None:  # noqa: B027 - most need no time
        """Wait until so many starts will find what is made ahead of them."""

    async def close(self) -> None:  # noqa: B027 - most have nothing to undo
        """Undo `prepare`."""


class Ours(Contender):
    """One of our backends."""

    def __init__(self, name: str, backend: Any, base: str, **options: object) -> None:
        self.name, self._backend, self._base, self._options = name, backend, base, options

    async def start(self) -> Environment:
        image = Image(self._base, workdir=WORKDIR)
        spec = EnvironmentSpec(image, LIMITS, AGENT_ENV, label="bench", options=self._options)
        environment: Environment = self._backend(spec)
        await environment.start()
        assert (await environment.shell("echo ok", timeout_s=120)).stdout == "ok\n"
        return environment

    async def stop(self, handle: Environment) -> None:
        await handle.stop()


class Docker(Ours):
    """Our docker backend, where there is a daemon."""

    async def prepare(self, root: Path) -> str:
        done = await asyncio.to_thread(subprocess.run, ["docker", "info"], capture_output=True, text=True)
        return "no daemon answers" if done.returncode else ""


class DockerReady(Docker):
    """The same, with as many containers made ahead as start at once."""

    async def settle(self, at_once: int) -> None:
        """See `Contender`. The first start asks for them."""
        from swe_plugin.environments.docker.daemon import current_daemon
        from swe_plugin.environments.docker.settings import DockerSettings

        self._options["ready"] = at_once
        ready = current_daemon(DockerSettings.of({}).host).ready
        while len(ready) != at_once:
            for handle in await asyncio.gather(*(self.start() for _ in range(at_once))):  # each leaves one behind
                await self.stop(handle)
            await asyncio.sleep(1.0)
            while ready.coming:
                await asyncio.sleep(0.1)

    async def close(self) -> None:
        """Remove what is still ready, which the next contender would find on the daemon."""
        from swe_plugin.environments.docker.daemon import close_daemons

        await asyncio.to_thread(close_daemons)


class AgentBox(Contender):
    """`agentbox-rl` from PyPI, on the same daemon, without its warm pool."""

    name = "agentbox-rl (docker)"

    async def prepare(self, root: Path) -> str:
        try:
            from agentbox import ResourceLimits, SandboxConfig, SandboxManager
        except ImportError as error:
            return f"not installed ({error})"
        config = SandboxConfig(
            image=DOCKER_TAG,
            auto_pull=False,
            ensure_pytest=False,
            workspace_dir=WORKDIR,
            working_dir=WORKDIR,
            limits=ResourceLimits(network_disabled=True),
        )
        try:
            self._manager = SandboxManager(config)
        except Exception as error:  # it wants a daemon at once
            return str(error)
        return ""

    async def start(self) -> Any:
        sandbox = await self._manager.create(task_id="bench", run_id="bench")
        assert (await self._manager.exec(sandbox, "echo ok", timeout_s=120)).stdout.strip() == "ok"
        return sandbox

    async def stop(self, handle: Any) -> None:
        await self._manager.destroy(handle)


class Piped(Contender):
    """A command that is a bash on pipes, after something was made for it."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    async def prepare(self, root: Path) -> str:
        self.root = root
        self.top = Path(tempfile.mkdtemp(prefix="swe-bench-"))
        return ""

    async def close(self) -> None:
        await asyncio.to_thread(shutil.rmtree, self.top)

    @abc.abstractmethod
    def make(self, here: Path) -> list[str]:
        """Make the file system below `here`; returns the command. Blocking."""

    def remove(self, here: Path) -> None:
        """Undo `make`. Blocking."""
        shutil.rmtree(here)

    async def start(self) -> Any:
        here = self.top / str(next(self._numbers))
        command = await asyncio.to_thread(self.make, here)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"echo ok\n")
        assert await process.stdout.readline() == b"ok\n"
        return here, process

    async def stop(self, handle: Any) -> None:
        here, process = handle
        process.kill()
        await process.wait()
        await asyncio.to_thread(self.remove, here)


class Bubblewrap(Piped):
    """Overlay on a tmpfs, mounted by root, and bubblewrap with all namespaces; no limits, no filter."""

    name = "bubblewrap + overlay"

    async def prepare(self, root: Path) -> str:
        return "bwrap is not installed" if shutil.which("bwrap") is None else await super().prepare(root)

    def make(self, here: Path) -> list[str]:
        here.mkdir()
        _run("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(here))
        for name in ("up", "work", "root"):
            (here / name).mkdir()
        _run(
            "mount",
            "-t",
            "overlay",
            "-o",
            f"lowerdir={self.root},upperdir={here}/up,workdir={here}/work",
            "overlay",
            str(here / "root"),
        )
        inside = ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", WORKDIR]
        return [
            "bwrap",
            "--bind",
            str(here / "root"),
            "/",
            *inside,
            "--unshare-all",
            "--die-with-parent",
            "bash",
            "--norc",
            "-s",
        ]

    def remove(self, here: Path) -> None:
        _run("umount", "-l", str(here / "root"))
        _run("umount", "-l", str(here))
        here.rmdir()


class Chroot(Piped):
    """The root directory as a tar, unpacked for each, and chroot; no isolation."""

    name = "tar + chroot"
    most = 64

    async def prepare(self, root: Path) -> str:
        reason = await super().prepare(root)
        await asyncio.to_thread(_run, "tar", "-C", str(root), "-cf", str(self.top / "root.tar"), ".")
        return reason

    def make(self, here: Path) -> list[str]:
        here.mkdir()
        _run("tar", "-C", str(here), "-xf", str(self.top / "root.tar"))
        return ["chroot", str(here), "bash", "--norc", "-s"]


class Floor:
    """The kernel's own price, in C (floor.c): not a contender, it cannot be used."""

    name = "the kernel's floor (C, no protection)"

    def __init__(self, root: Path) -> None:
        self._root = root
        self._top = Path(tempfile.mkdtemp(prefix="swe-floor-"))
        self._program = self._top / "floor"
        _run("cc", "-O2", "-o", str(self._program), str(Path(__file__).with_name("floor.c")))

    def measure(self, at_once: int, lives: int) -> tuple[list[float], list[float]]:
        """Seconds, ready and gone, of each life."""
        out = self._top / f"out-{uuid.uuid4().hex}"
        scratch = self._top / "scratch"
        scratch.mkdir(exist_ok=True)
        command = f'exec 3>"{out}"; exec "{self._program}" "{self._root}" "{scratch}" {at_once} {lives}'
        _run("bash", "-c", command)
        pairs = [line.split() for line in out.read_text().splitlines()]
        assert len(pairs) == lives
        return [float(ready) / 1e6 for ready, _ in pairs], [float(gone) / 1e6 for _, gone in pairs]

    def close(self) -> None:
        """Remove the program."""
        shutil.rmtree(self._top)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
