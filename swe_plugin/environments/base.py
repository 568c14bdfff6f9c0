"""What an environment is: a started, isolated, single-use workspace in which commands run.

Every backend implements `Environment` and passes `swe_plugin.environments.conformance`. Failures follow
one rule: a command that fails or times out is a *result*; an environment that is gone *raises*.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from swe_plugin.environments.connection import Connection, connected_by_exec
from swe_plugin.types import ExecResult, Image, Usage

if TYPE_CHECKING:
    from swe_plugin.config import EnvironmentConfig

__all__ = ["Capability", "Environment", "EnvironmentLimits", "EnvironmentSpec"]


class Capability(StrEnum):
    """What a backend may honestly lack. Everything else of the contract is not optional."""

    PROCESSES = "processes"
    """Commands are real processes under a real bash."""
    SESSION = "session"
    """What a `shell` script leaves running lives on, as a job of the next script."""
    ISOLATION = "isolation"
    """Commands see nothing of the machine they run on (files, processes, descriptors) and get no rights over it."""
    IMAGES = "images"
    """`EnvironmentSpec.image` decides about the file system, and one that cannot be had is a failed start."""
    FILE_METADATA = "file_metadata"
    """Permission bits, symlinks and empty directories survive `write_file`, `upload` and `download`."""
    NETWORK_NONE = "network_none"
    """``network: none`` leaves nothing but a loopback of its own."""
    MEMORY_LIMIT = "memory_limit"
    PIDS_LIMIT = "pids_limit"
    CPU_LIMIT = "cpu_limit"
    DISK_LIMIT = "disk_limit"
    OUTPUT_LIMIT = "output_limit"


@dataclass(frozen=True, slots=True)
class EnvironmentLimits:
    """Bounds of one environment. A backend that cannot hold one says so in its probe."""

    memory_mib: int = 512
    pids: int = 128
    cpus: float = 1.0
    disk_mib: int = 256
    output_bytes: int = 1 << 20
    """Per stream and command; the middle is dropped beyond it."""
    start_timeout_s: float = 60.0
    image_timeout_s: float = 1800.0
    """Of `Environment.prepare`."""


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """What to start.

    Attributes:
        image: where the file system comes from.
        limits: resource bounds.
        env: the agent's environment variables, complete: nothing of the caller's environment is added.
        network: ``none`` (loopback of its own only) or ``full``.
        label: instance and session, for leases and logs.
        options: backend-specific settings (``swe.environment.options``).
        image_cache_gib: disk budget of the node's image store; 0: none.
    """

    image: Image
    limits: EnvironmentLimits = field(default_factory=EnvironmentLimits)
    env: Mapping[str, str] = field(default_factory=dict)
    network: str = "none"
    label: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    image_cache_gib: float = 0.0


class Environment(abc.ABC):
    """A workspace that is started once, used, and stopped; it cannot be started again.

    Usable as ``async with``. All methods may be cancelled at any await; after a cancelled `exec` or
    `shell` the command's processes are dead. One caller at a time may use `shell`; `exec` is reentrant.

    Attributes:
        lacks: what this backend cannot do, with the reason in one line; the conformance suite repeats it.
        spec: what it was made from.
    """

    lacks: ClassVar[Mapping[Capability, str]] = {}
    spec: EnvironmentSpec

    @classmethod
    def check(cls, config: EnvironmentConfig) -> str:
        """Whether this machine can run such environments with these settings; optional, blocking, leaves nothing.

        Called before a run starts and by ``swe-plugin doctor``.

        Returns:
            What was found, in a few words.

        Raises:
            ConfigError: it cannot; names the key and the fix.
        """
        return ""

    @classmethod
    def check_image(cls, image: Image) -> None:
        """Whether such environments can start from `image` here; optional, called once per image before a run.

        Raises:
            EnvironmentStartError: they cannot; names the image and the fix.
        """
        return

    async def prepare(self) -> None:
        """Pull, build or unpack what it starts from; optional, called once before `start`, which does it otherwise.

        The pool gives it a limit of its own (``limits.image_timeout_s``), because the first use of an image takes
        minutes where a start takes seconds.

        Raises:
            EnvironmentStartError: the image is unusable.
        """
        return

    @abc.abstractmethod
    async def start(self) -> None:
        """Make the environment ready for its first command.

        Raises:
            EnvironmentStartError: not ready within ``limits.start_timeout_s``, or the image is unusable;
                nothing is left behind.
        """

    @abc.abstractmethod
    async def stop(self) -> None:
        """Remove every trace. Idempotent, safe after a failed start, never raises for a dead environment."""

    @abc.abstractmethod
    async def exec(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
        stdin: bytes = b"",
    ) -> ExecResult:
        """Run one command in a fresh process (no state shared with `shell`).

        Args:
            argv: program and arguments, no shell involved.
            cwd: absolute directory inside; default ``image.workdir``.
            env: added to ``spec.env``.
            timeout_s: after it the command's whole process tree is killed and partial output returned.
            stdin: fed, then closed.

        Raises:
            EnvironmentUnavailable: the environment is dead.
        """

    @abc.abstractmethod
    async def shell(self, script: str, *, timeout_s: float = 60.0) -> ExecResult:
        """Run a script in the agent's persistent bash: cwd and variables survive between calls.

        stderr is interleaved with stdout, as on a terminal. stdin is empty. A script that ends the shell
        (`exit`, `exec`) or has to be killed costs the shell's variables, not the environment.

        Raises:
            EnvironmentUnavailable: the environment is dead.
        """

    @abc.abstractmethod
    async def read_file(self, path: str) -> bytes:
        """Content of a regular file inside.

        Raises:
            FileNotFoundError: no such file.
            EnvironmentUnavailable: the environment is dead.
        """

    @abc.abstractmethod
    async def write_file(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        """Write a file inside, creating parent directories; symlinks are followed inside only.

        Raises:
            OSError: it cannot be written (disk limit, a directory is in the way).
            EnvironmentUnavailable: the environment is dead.
        """

    @abc.abstractmethod
    async def upload(self, source: Path, target: str) -> None:
        """Copy a local file or tree to `target` inside (modes and symlinks kept)."""

    @abc.abstractmethod
    async def download(self, source: str, target: Path) -> None:
        """Copy a file or tree from inside to the local `target`; entries that would escape it are refused."""

    @abc.abstractmethod
    async def is_alive(self) -> bool:
        """Whether commands can run now. Never raises."""

    def connect(self, argv: Sequence[str], *, timeout_s: float) -> AbstractAsyncContextManager[Connection]:
        """Run one command and talk to it until the block ends, or it does; then what it started is dead as well.

        Optional: by default each message is an `exec`. What a command wrote just before its end may be lost.

        Raises:
            EnvironmentUnavailable: the environment is dead; from `Connection.read`, `write` and ``ended`` too.
        """
        return connected_by_exec(self, argv, timeout_s=timeout_s)

    async def usage(self) -> Usage | None:
        """What its processes used so far; optional, None if that is not known.

        Raises:
            EnvironmentUnavailable: the environment is dead.
        """
        return None

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
