"""`DummyEnvironment`: an environment without processes, for tests of everything above environments.

Files live in a dict and commands are answered by a handler, so that a test says exactly what happens::

    def handler(environment, script):
        return ExecResult("3 passed") if "pytest" in script else None      # None: the built-in commands

    environment = DummyEnvironment(spec, handler=handler)

Failures are chosen through `DummyBehaviour`, or through ``spec.options`` with the same keys.
"""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
import inspect
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar

from swe_plugin.environments.base import Capability, EnvironmentSpec
from swe_plugin.environments.single_use import SingleUse
from swe_plugin.types import ExecResult

__all__ = ["DummyBehaviour", "DummyEnvironment", "Handler"]

Answer = ExecResult | str | None
Handler = Callable[["DummyEnvironment", str], Answer | Awaitable[Answer]]
"""Called with the environment and the script (an argv is joined by shell rules). Returns a result, the text
of stdout, or None to leave the command to the built-in ones; may be a coroutine function."""


@dataclass(frozen=True, slots=True)
class DummyBehaviour:
    """What goes wrong, and how slow it is."""

    fail_start: str = ""
    """Reason with which `start` raises `EnvironmentStartError`; empty: it succeeds."""
    hang_start: bool = False
    """`start` never returns."""
    start_s: float = 0.0
    """Seconds that `start` takes."""
    command_s: float = 0.0
    """Seconds that every command takes; above its time limit it times out."""
    die_after: int = -1
    """Commands after which the environment is dead: the next one raises; -1: never."""
    hang_stop: bool = False
    """`stop` never returns."""


class DummyEnvironment(SingleUse):
    """In-memory environment.

    Built-in commands: ``true``, ``false``, ``exit N``, ``echo``, ``pwd``, ``cat FILE``, ``sleep S`` and
    ``git diff`` (a unified diff of the files against ``image.files``). Anything else exits with 127.

    Attributes:
        files: absolute path -> content; starts as ``image.files`` under ``image.workdir``.
        commands: every script and joined argv that ran, oldest first.
        started, stopped: what was called.
    """

    lacks: ClassVar[Mapping[Capability, str]] = {
        **dict.fromkeys(Capability, "nothing runs: commands are answered in memory"),
        Capability.IMAGES: "files are `image.files`, whatever the base is",
        Capability.FILE_METADATA: "files are a dict of bytes",
    }

    def __init__(
        self, spec: EnvironmentSpec, *, handler: Handler | None = None, behaviour: DummyBehaviour | None = None
    ) -> None:
        super().__init__(spec)
        self.behaviour = behaviour or _behaviour(spec.options)
        self.files: dict[str, bytes] = {}
        self.commands: list[str] = []
        self.started = self.stopped = False
        self._handler = handler or spec.options.get("handler")
        self._over = asyncio.Event()
        """Stopped or dead: running commands end."""

    async def _launch(self) -> None:
        """Fill `files`, or fail as told."""
        if self.behaviour.hang_start:
            await asyncio.Event().wait()
        await asyncio.sleep(self.behaviour.start_s)
        if self.behaviour.fail_start:
            raise self._start_error(self.behaviour.fail_start)
        self.files = {self._absolute(path): text.encode() for path, text in self.spec.image.files.items()}
        self.started = True

    async def stop(self) -> None:
        """Forget everything."""
        self.stopped = True
        self._over.set()
        self.files.clear()
        if self.behaviour.hang_stop:
            await asyncio.Event().wait()

    def kill(self) -> None:
        """Make it dead, as if its supervisor had been killed."""
        self._over.set()

    async def exec(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
        stdin: bytes = b"",
    ) -> ExecResult:
        """Answer one command; ``bash -c SCRIPT`` is answered as SCRIPT.

        Raises:
            ValueError: no program, or a NUL byte in an argument.
        """
        self._check_argv(argv)
        shells = {"bash", "sh", "/bin/bash", "/bin/sh"}
        wrapped = len(argv) == 3 and argv[0] in shells and argv[1] in {"-c", "-lc"}
        return await self._run(argv[2] if wrapped else shlex.join(argv), timeout_s)

    async def shell(self, script: str, *, timeout_s: float = 60.0) -> ExecResult:
        """Answer one script; no state but `files` survives."""
        return await self._run(script, timeout_s)

    async def read_file(self, path: str) -> bytes:
        """Content of `files[path]`."""
        self._check_alive()
        try:
            return self.files[self._absolute(path)]
        except KeyError:
            raise FileNotFoundError(path) from None

    async def write_file(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        """Set `files[path]`; `mode` is not kept."""
        self._check_alive()
        self.files[self._absolute(path)] = content

    async def upload(self, source: Path, target: str) -> None:
        """Read regular files of a local tree into `files`."""
        self._check_alive()
        tree = await asyncio.to_thread(_read_tree, source)
        self.files.update({self._absolute(f"{target}/{path}" if path else target): data for path, data in tree.items()})

    async def download(self, source: str, target: Path) -> None:
        """Write `files` below `source` into the local `target`.

        Raises:
            FileNotFoundError: nothing is there.
        """
        self._check_alive()
        top = self._absolute(source)
        found = {path: data for path, data in self.files.items() if path == top or path.startswith(f"{top}/")}
        if not found:
            raise FileNotFoundError(source)
        await asyncio.to_thread(_write_tree, target, {path.removeprefix(top): data for path, data in found.items()})

    async def is_alive(self) -> bool:
        """Started, not stopped, not dead."""
        return self.started and not self._over.is_set()

    def diff(self) -> str:
        """Unified diff (``git diff`` form) of the work directory against ``image.files``."""
        root = f"{self.spec.image.workdir}/"
        after = {path.removeprefix(root): data.decode() for path, data in self.files.items() if path.startswith(root)}
        before = self.spec.image.files
        parts: list[str] = []
        for path in sorted(before.keys() | after.keys()):
            old, new = before.get(path), after.get(path)
            if old != new:
                names = ("/dev/null" if old is None else f"a/{path}", "/dev/null" if new is None else f"b/{path}")
                lines = difflib.unified_diff((old or "").splitlines(True), (new or "").splitlines(True), *names)
                parts += [f"diff --git a/{path} b/{path}\n", *lines]
        return "".join(parts)

    async def _run(self, script: str, timeout_s: float) -> ExecResult:
        self._check_alive()
        if 0 <= self.behaviour.die_after <= len(self.commands):
            self.kill()
            self._check_alive()
        self.commands.append(script)
        began = time.perf_counter()
        answer, over = asyncio.ensure_future(self._answer(script)), asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait([answer, over], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            self._check_alive()
            result = answer.result() if answer.done() else ExecResult("", exit_code=-1, timed_out=True)
        finally:
            answer.cancel()
            over.cancel()
        return dataclasses.replace(result, duration_s=time.perf_counter() - began)

    async def _answer(self, script: str) -> ExecResult:
        await asyncio.sleep(self.behaviour.command_s)
        answer = self._handler(self, script) if self._handler else None
        if inspect.isawaitable(answer):
            answer = await answer
        if answer is None:
            return await self._builtin(script)
        return ExecResult(answer) if isinstance(answer, str) else answer

    async def _builtin(self, script: str) -> ExecResult:
        words = shlex.split(script)
        match words:
            case ["true"] | []:
                return ExecResult("")
            case ["false"]:
                return ExecResult("", exit_code=1)
            case ["exit", code]:
                return ExecResult("", exit_code=int(code) & 255)
            case ["echo", *rest]:
                return ExecResult(" ".join(rest) + "\n")
            case ["pwd"]:
                return ExecResult(self.spec.image.workdir + "\n")
            case ["cat", path] if self._absolute(path) in self.files:
                return ExecResult(self.files[self._absolute(path)].decode(errors="replace"))
            case ["cat", path]:
                return ExecResult(f"cat: {path}: No such file or directory\n", exit_code=1)
            case ["sleep", seconds]:
                await asyncio.sleep(float(seconds))
                return ExecResult("")
            case ["git", "diff", *_]:
                return ExecResult(self.diff())
        return ExecResult(f"bash: {words[0]}: command not found\n", exit_code=127)

    def _absolute(self, path: str) -> str:
        return str(PurePosixPath(self.spec.image.workdir) / path)

    def _check_alive(self) -> None:
        if not self.started or self._over.is_set():
            raise self._unavailable()


def _behaviour(options: Mapping[str, object]) -> DummyBehaviour:
    known = {field.name for field in dataclasses.fields(DummyBehaviour)}
    return DummyBehaviour(**{key: value for key, value in options.items() if key in known})  # type: ignore[arg-type]


def _read_tree(source: Path) -> dict[str, bytes]:
    if not source.exists():
        raise FileNotFoundError(source)
    if source.is_file():
        return {"": source.read_bytes()}
    return {path.relative_to(source).as_posix(): path.read_bytes() for path in source.rglob("*") if path.is_file()}


def _write_tree(target: Path, files: Mapping[str, bytes]) -> None:
    for path, data in files.items():
        local = target / path.lstrip("/") if path else target
        local.parent.mkdir(parents=True, exist_ok=True)
        local.write_bytes(data)
