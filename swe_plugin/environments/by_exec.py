"""`ExecEnvironment`: a backend of which only four methods are left to write."""

from __future__ import annotations

import asyncio
import base64
import io
import secrets
import tarfile
import tempfile
from pathlib import Path, PurePosixPath

from swe_plugin.environments.base import Environment, EnvironmentSpec
from swe_plugin.errors import EnvironmentStartError, EnvironmentUnavailable
from swe_plugin.types import ExecResult

__all__ = ["ExecEnvironment"]

_CHUNK_BYTES = 256 << 10  # of a file, as base64 in one command's output
_REPOSITORY = """\
git init -q --initial-branch=main && git add -A --force &&
git -c user.name=base -c user.email=base@localhost -c commit.gpgsign=false commit -q --allow-empty --no-verify -m base
"""
_SHELL = """\
exec 2>&1
__state=$1
[ -f "$__state" ] && . "$__state" 2> /dev/null
eval "$2"
set -- "$?"
{ declare -p | grep -v '^declare -[A-Za-z]*r'; declare -f; printf 'cd -- %q\\n' "$PWD"; } > "$__state" 2> /dev/null
exit "$1"
"""


class ExecEnvironment(Environment):
    """Everything by commands inside: a subclass writes `start`, `stop`, `exec` and `is_alive`.

    Needs bash, coreutils, tar and git inside, and `limits.output_bytes` of at least 512 KiB. A `start` ends with
    `make_repository`. The shell keeps directory, variables and functions from call to call, but neither options of
    ``set`` nor aliases; each call is a new bash.
    """

    def __init__(self, spec: EnvironmentSpec) -> None:
        self.spec = spec
        self._state = f"/tmp/.shell-{secrets.token_hex(8)}"  # noqa: S108

    async def make_repository(self) -> None:
        """Make the work directory and ``/tmp``; write ``image.files`` and commit them.

        Raises:
            EnvironmentStartError: it did not work.
        """
        image, archive = self.spec.image, io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for path, text in image.files.items():
                entry = tarfile.TarInfo(path)
                entry.size = len(data := text.encode())
                tar.addfile(entry, io.BytesIO(data))
        make = 'mkdir -p -- "$1" "$2" && cd -- "$1"' + (f" && tar -xf - && {_REPOSITORY}" if image.files else "")
        words = ["bash", "-c", make, "bash", image.workdir, str(PurePosixPath(self._state).parent)]
        limit = self.spec.limits.start_timeout_s
        result = await self.exec(words, cwd="/", timeout_s=limit, stdin=archive.getvalue())
        if result.exit_code:
            raise EnvironmentStartError(f"{self.spec.label}: image.files: {result.stderr.strip()}")

    async def shell(self, script: str, *, timeout_s: float = 60.0) -> ExecResult:
        """See `Environment.shell`."""
        return await self.exec(["bash", "-c", _SHELL, "bash", self._state, script], timeout_s=timeout_s)

    async def read_file(self, path: str) -> bytes:
        """See `Environment.read_file`."""
        content, read = b"", 'test -f "$1" && tail -c +"$2" -- "$1" | head -c "$3" | base64 -w0'
        while True:
            words = ["bash", "-c", read, "bash", path, str(len(content) + 1), str(_CHUNK_BYTES)]
            result = await self.exec(words, cwd="/")
            if result.truncated:
                raise OSError(f"{path}: limits.output_bytes={self.spec.limits.output_bytes} is too small to read files")
            if result.exit_code:
                await self._raise_if_dead()
                raise FileNotFoundError(f"{path}: {result.stderr.strip() or 'no such file'}")
            chunk = base64.b64decode(result.stdout)
            content += chunk
            if len(chunk) < _CHUNK_BYTES:
                return content

    async def write_file(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        """See `Environment.write_file`."""
        write = 'mkdir -p -- "$(dirname -- "$1")" && cat > "$1" && chmod "$2" -- "$1"'
        await self._do(["bash", "-c", write, "bash", path, f"{mode:o}"], content)

    async def upload(self, source: Path, target: str) -> None:
        """See `Environment.upload`."""
        place = PurePosixPath(target)
        archive = await asyncio.to_thread(_pack, source, place.name)
        unpack = 'mkdir -p -- "$1" && tar -xof - -C "$1"'
        await self._do(["bash", "-c", unpack, "bash", str(place.parent)], archive)

    async def download(self, source: str, target: Path) -> None:
        """See `Environment.download`; an archive is held in memory on the way.

        Raises:
            PermissionError: an entry or a link would lead out of `target`.
        """
        place, packed = PurePosixPath(source), f"{self._state}.tar"
        await self._do(["tar", "-cf", packed, "-C", str(place.parent), "--", place.name])
        archive = await self.read_file(packed)
        await self._do(["rm", "-f", "--", packed])
        await asyncio.to_thread(_unpack, archive, place.name, target)

    async def _do(self, argv: list[str], stdin: bytes = b"") -> None:
        result = await self.exec(argv, cwd="/", stdin=stdin)
        if result.exit_code:
            await self._raise_if_dead()
            raise OSError(f"{self.spec.label}: {result.stderr.strip() or f'exit code {result.exit_code}'}")

    async def _raise_if_dead(self) -> None:
        if not await self.is_alive():
            raise EnvironmentUnavailable(f"{self.spec.label}: the environment is gone")


def _pack(source: Path, name: str) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.add(source, arcname=name)
    return stream.getvalue()


def _unpack(content: bytes, name: str, target: Path) -> None:
    with (
        tempfile.TemporaryDirectory(dir=target.parent) as directory,
        tarfile.open(fileobj=io.BytesIO(content)) as archive,
    ):
        try:
            archive.extractall(directory, filter="data")
        except tarfile.FilterError as error:
            raise PermissionError(f"{target}: refused: {error}") from error
        (Path(directory) / name).rename(target)
