"""`read_file` and `write_file`."""

from __future__ import annotations

import asyncio

import pytest

from swe_plugin.environments.base import Capability, Environment
from swe_plugin.environments.conformance.checks import Checks, bash, needs

__all__ = ["FileChecks"]

_BINARY = bytes(range(256)) * 5000


class FileChecks(Checks):
    """Single files."""

    @pytest.mark.parametrize("content", [b"", b"text\n", b"\r\n\0\xff", _BINARY], ids=["empty", "text", "odd", "big"])
    async def test_content_goes_in_and_out_unchanged(self, environment: Environment, content: bytes) -> None:
        """Byte for byte."""
        await environment.write_file("/tmp/file", content)
        assert await environment.read_file("/tmp/file") == content

    @pytest.mark.parametrize("name", ["a b", "ünï\U0001f600", "-rf", "'quoted\"", "$HOME", "new\nline", "*"])
    async def test_any_file_name_is_taken_as_it_is(self, environment: Environment, name: str) -> None:
        """No shell looks at it."""
        await environment.write_file(f"/tmp/names/{name}", name.encode())
        assert await environment.read_file(f"/tmp/names/{name}") == name.encode()

    async def test_parent_directories_are_made(self, environment: Environment) -> None:
        """As many as there are."""
        await environment.write_file("/tmp/made/a/b/c", b"x")
        assert await environment.read_file("/tmp/made/a/b/c") == b"x"

    async def test_a_shorter_file_replaces_a_longer_one(self, environment: Environment) -> None:
        """Nothing of the old one is left."""
        await environment.write_file("replaced", b"long content")
        await environment.write_file("replaced", b"short")
        assert await environment.read_file("replaced") == b"short"

    async def test_relative_paths_count_from_the_work_directory(self, environment: Environment) -> None:
        """For both methods, wherever the shell is."""
        await environment.write_file("pkg/relative", b"x")
        assert await environment.read_file(f"{self.image.workdir}/pkg/relative") == b"x"

    @needs(Capability.PROCESSES, Capability.FILE_METADATA)
    @pytest.mark.parametrize("mode", [0o644, 0o755, 0o600, 0o444])
    async def test_the_mode_is_kept(self, environment: Environment, mode: int) -> None:
        """Whatever the umask is."""
        await environment.write_file(f"/tmp/mode-{mode:o}", b"", mode=mode)
        assert (await environment.exec(["stat", "-c", "%a", f"/tmp/mode-{mode:o}"])).stdout == f"{mode:o}\n"

    @needs(Capability.PROCESSES)
    async def test_files_belong_to_whoever_runs_commands(self, environment: Environment) -> None:
        """A command can change what was written for it."""
        await environment.write_file("/tmp/own/script", b"echo ran\n", mode=0o755)
        script = "echo echo more >> /tmp/own/script && bash /tmp/own/script && rm -r /tmp/own"
        assert (await bash(environment, script)).stdout == "ran\nmore\n"

    @needs(Capability.PROCESSES)
    async def test_commands_see_written_files_and_written_files_show_commands(self, environment: Environment) -> None:
        """It is one file system."""
        await environment.write_file("/tmp/shared", b"in")
        assert (await environment.shell("cat /tmp/shared; printf out > /tmp/shared")).stdout == "in"
        assert await environment.read_file("/tmp/shared") == b"out"

    @pytest.mark.parametrize("path", ["/nope", "nope/nope", "calc.py.nope"])
    async def test_a_missing_file_is_missing(self, environment: Environment, path: str) -> None:
        """`FileNotFoundError`, as from `open`."""
        with pytest.raises(FileNotFoundError):
            await environment.read_file(path)

    @needs(Capability.PROCESSES)
    @pytest.mark.parametrize("path", ["/tmp", "/dev/zero", "/tmp/pipe"])
    async def test_only_regular_files_are_read(self, environment: Environment, path: str) -> None:
        """A device or a pipe nobody writes to must not hang the reader."""
        await bash(environment, "[ -p /tmp/pipe ] || mkfifo /tmp/pipe")
        with pytest.raises(OSError):
            await asyncio.wait_for(environment.read_file(path), 20)

    @needs(Capability.PROCESSES)
    @pytest.mark.parametrize("path", ["/proc/version", "/etc/passwd/x", "/tmp", "/tmp/to-proc"])
    async def test_a_write_that_is_impossible_raises(self, environment: Environment, path: str) -> None:
        """Also through a symlink."""
        await bash(environment, "ln -sfn /proc/version /tmp/to-proc")
        with pytest.raises(OSError):
            await environment.write_file(path, b"x")

    @needs(Capability.PROCESSES)
    async def test_a_symlink_leads_nowhere_but_inside(self, environment: Environment) -> None:
        """An absolute target is one of the environment, not of this machine."""
        await bash(environment, "ln -sfn /tmp/inside /tmp/link")
        await environment.write_file("/tmp/link", b"conformance")
        assert (await environment.exec(["cat", "/tmp/inside"])).stdout == "conformance"

    async def test_many_files_at_once(self, environment: Environment) -> None:
        """Each keeps its own content."""
        await asyncio.gather(*(environment.write_file(f"/tmp/many/{i}", b"%d" % i) for i in range(40)))
        contents = await asyncio.gather(*(environment.read_file(f"/tmp/many/{i}") for i in range(40)))
        assert contents == [b"%d" % i for i in range(40)]
