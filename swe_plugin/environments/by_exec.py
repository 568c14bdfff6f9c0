"""`ExecEnvironment`: a backend of which four short methods are left to write."""

from __future__ import annotations

import abc
import asyncio
import base64
import io
import secrets
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import ClassVar

from swe_plugin.environments.base import Capability, EnvironmentSpec
from swe_plugin.environments.sandbox.transfer import unpack_tree
from swe_plugin.environments.sandbox.zygote.trees import pack_tree
from swe_plugin.environments.single_use import SingleUse
from swe_plugin.environments.start import settled
from swe_plugin.errors import EnvironmentUnavailable
from swe_plugin.types import ExecResult

__all__ = ["ExecEnvironment"]

_LOOK_EVERY_S = 5.0
"""How often `is_running` is asked while a command runs: a connection that hangs does not say that its end is gone."""
_CHUNK_BYTES = 768 << 10  # of a file, as base64 in one command's output
_PIECE_BYTES = 90_000  # of stdin, as base64 in one argument; the kernel takes 128 KiB
_MISSING = 66
_ENTER = 'cd -- "$1" || exit 126; shift; exec env -i "$@"'
_REPOSITORY = """\
git init -q --initial-branch=main && git add -A --force && git -c user.name=base -c user.email=base@localhost \
-c commit.gpgsign=false -c core.logAllRefUpdates=false commit -q --allow-empty --no-verify -m base
"""
_SHELL = """\
__from=$1 __to=$2; shift $#
IFS= read -r -d '' __script; exec < /dev/null 2>&1
trap : TERM; shopt -s expand_aliases
[ -f "$__from" ] && . "$__from" 2> /dev/null
printf 'cd -- %q\\n' "$PWD" > "$__to"
eval "$__options"
eval "$__script"
{
  __status=$?
  __options=$(shopt -p; set +o) || :
  { unset __from __to __script; declare -p; declare -f; alias -p; printf 'cd -- %q\\n' "$PWD"; } > "$__to" || :
  exit "$__status"
} 2> /dev/null
"""
_PACK = """\
cd -- "$1" && [ -e "$2" -o -L "$2" ] || exit 66
set -o pipefail
find "./$2" '(' -type f -o -type d -o -type l ')' -print0 | tar -cf "$3" --no-recursion --null -T -
"""


class ExecEnvironment(SingleUse):
    """Everything by commands inside: a subclass writes `launch`, `run`, `is_running` and `remove`.

    Needs bash, coreutils, tar and git inside. Each `shell` call is a new bash, which finds the directory, variables,
    functions, aliases and options of the last one; jobs it does not find.
    """

    lacks: ClassVar[Mapping[Capability, str]] = {Capability.SESSION: "each script has a bash of its own"}

    takes_stdin: ClassVar[bool] = True
    """Whether `run` can feed stdin. Else it is never asked to: a file inside takes its place."""

    def __init__(self, spec: EnvironmentSpec) -> None:
        super().__init__(spec)
        self._live = False
        self._commands: set[asyncio.Future[ExecResult]] = set()
        self._shell = asyncio.Lock()
        state = f"/tmp/.shell-{secrets.token_hex(8)}"  # noqa: S108
        self._last, self._next = f"{state}-0", f"{state}-1"

    @abc.abstractmethod
    async def launch(self) -> None:
        """Make the environment, in which `run` works from now on.

        Raises:
            EnvironmentStartError: it cannot be made; names what is wrong with ``spec``.
        """

    @abc.abstractmethod
    async def run(self, argv: Sequence[str], *, timeout_s: float, stdin: bytes) -> ExecResult:
        """Run one command inside, in any directory and with any variables.

        When it returns, times out or is cancelled, no process of the command is left; a time-out returns what was
        written so far. Both streams are bounded by ``spec.limits.output_bytes``.

        Raises:
            Exception: the environment cannot be reached; the caller gets `EnvironmentUnavailable`.
        """

    @abc.abstractmethod
    async def is_running(self) -> bool:
        """Whether it is there; asked after `launch` only, and now and then while a command runs."""

    @abc.abstractmethod
    async def remove(self) -> None:
        """Remove what `launch` made, even if it failed half-way. Called once or more, never before `launch`."""

    async def _launch(self) -> None:
        await self.launch()
        self._live = True
        await self._make_repository()

    async def stop(self) -> None:
        """See `Environment.stop`."""
        if self._used:
            self._live = False
            for command in list(self._commands):
                command.cancel()
                await settled(command)
            await self.remove()

    async def is_alive(self) -> bool:
        """See `Environment.is_alive`."""
        try:
            return self._live and await self.is_running()
        except Exception:
            return False

    async def exec(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
        stdin: bytes = b"",
    ) -> ExecResult:
        """See `Environment.exec`.

        Raises:
            ValueError: no program, or a NUL byte in an argument.
        """
        self._check_argv(argv)
        if not self._live:
            raise self._unavailable()
        variables = [f"{name}={value}" for name, value in {**self.spec.env, **(env or {})}.items()]
        words = ["bash", "-c", _ENTER, "bash", cwd or self.spec.image.workdir, *variables, *argv]
        if stdin and not self.takes_stdin:
            words, stdin = await self._with_file(words, stdin), b""
        task = asyncio.ensure_future(self.run(words, timeout_s=timeout_s, stdin=stdin))
        self._commands.add(task)
        try:
            while not task.done():
                await asyncio.wait([task], timeout=_LOOK_EVERY_S)
                if not task.done() and not await self.is_alive():
                    raise self._unavailable()
        finally:
            task.cancel()
            await settled(task)
            self._commands.discard(task)
            failure = None if task.cancelled() else task.exception()
        return await self._result(task, failure)

    async def _with_file(self, words: list[str], stdin: bytes) -> list[str]:
        """`words` with `stdin` from a file inside, which is gone once it is open."""
        path, write = f"/tmp/.stdin-{secrets.token_hex(8)}", 'printf %s "$2" | base64 -d >> "$1"'  # noqa: S108
        for start in range(0, len(stdin), _PIECE_BYTES):
            await self._do(write, path, base64.b64encode(stdin[start : start + _PIECE_BYTES]).decode())
        return ["bash", "-c", 'exec < "$1" && rm -f -- "$1" && shift && exec "$@"', "bash", path, *words]

    async def _result(self, task: asyncio.Future[ExecResult], failure: BaseException | None) -> ExecResult:
        """What `run` returned, unless that is the environment's failure and not the command's."""
        if isinstance(failure, EnvironmentUnavailable):
            raise failure
        if failure:
            raise self._unavailable(f"{type(failure).__name__}: {failure}") from failure
        if task.cancelled() or (task.result().exit_code and not await self.is_alive()):
            raise self._unavailable()
        return task.result()

    async def shell(self, script: str, *, timeout_s: float = 60.0) -> ExecResult:
        """See `Environment.shell`; a script that was cut off leaves the state as it was before."""
        async with self._shell:
            words = ["bash", "-c", _SHELL, "bash", self._last, self._next]
            result = await self.exec(words, timeout_s=timeout_s, stdin=script.encode(errors="surrogateescape"))
            if not result.timed_out:
                self._last, self._next = self._next, self._last
            return result

    async def read_file(self, path: str) -> bytes:
        """See `Environment.read_file`."""
        content = bytearray()
        step = min(_CHUNK_BYTES, self.spec.limits.output_bytes // 4 * 3)  # base64 makes four bytes of three
        read = '[ -f "$1" ] || exit 66; exec < "$1" && tail -c +"$2" | head -c "$3" | base64 -w0'
        while True:
            encoded = await self._do(read, self._absolute(path), str(len(content) + 1), str(step))
            chunk = base64.b64decode(encoded)
            content += chunk
            if len(chunk) < step:
                return bytes(content)

    async def write_file(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        """See `Environment.write_file`."""
        write = 'mkdir -p -- "$(dirname -- "$1")" && cat > "$1" && chmod "$2" -- "$1"'
        await self._do(write, self._absolute(path), f"{mode:o}", stdin=content)

    async def upload(self, source: Path, target: str) -> None:
        """See `Environment.upload`; the tree is held in memory on the way."""
        place = PurePosixPath(self._absolute(target))
        packed = await asyncio.to_thread(_pack, source, place.name)
        await self._do('mkdir -p -- "$1" && tar -xpof - -C "$1"', str(place.parent), stdin=packed)

    async def download(self, source: str, target: Path) -> None:
        """See `Environment.download`; the tree is held in memory on the way.

        Raises:
            PermissionError: an entry or a link would lead out of `target`.
        """
        place, packed = PurePosixPath(self._absolute(source)), f"{self._last}.tar"
        try:
            await self._do(_PACK, str(place.parent), place.name, packed)
            archive = await self.read_file(packed)
        finally:
            await self._do('rm -f -- "$1"', packed)
        await asyncio.to_thread(unpack_tree, io.BytesIO(archive), target, f"./{place.name}")

    async def _make_repository(self) -> None:
        """Write ``image.files`` into the work directory and commit them; without any, it has to be there."""
        image, archive = self.spec.image, io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for path, text in image.files.items():
                entry = tarfile.TarInfo(path)
                entry.size = len(data := text.encode())
                tar.addfile(entry, io.BytesIO(data))
        make = f'mkdir -p -- "$1" && cd -- "$1" && tar -xf - && {_REPOSITORY}' if image.files else 'cd -- "$1"'
        words = ["bash", "-c", f'mkdir -p /tmp "${{HOME:-/tmp}}"; {make}', "bash", image.workdir]
        result = await self.exec(words, cwd="/", stdin=archive.getvalue())
        if result.exit_code:
            raise self._start_error(f"image.workdir, image.files: {result.stderr.strip()}")

    def _absolute(self, path: str) -> str:
        return str(PurePosixPath(self.spec.image.workdir) / path)

    async def _do(self, script: str, *words: str, stdin: bytes = b"") -> str:
        """What a script of ours printed."""
        result = await self.exec(["bash", "-c", script, "bash", *words], cwd="/", stdin=stdin)
        if result.exit_code == _MISSING:
            raise FileNotFoundError(f"{self.spec.label}: {words[0]}: no such file")
        if result.exit_code or result.truncated:
            raise OSError(f"{self.spec.label}: {result.stderr.strip() or f'exit code {result.exit_code}'}")
        return result.stdout


def _pack(source: Path, name: str) -> bytes:
    stream = io.BytesIO()
    pack_tree(str(source), name, stream)
    return stream.getvalue()
