"""`upload` and `download`: what comes out is not trusted, what goes in arrives whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from swe_plugin.environments.base import Capability, Environment
from swe_plugin.environments.conformance.checks import LOOP_HELD_S, Checks, bash, needs
from swe_plugin.environments.conformance.loop_watch import LoopWatch

__all__ = ["TreeChecks"]

_MANY = 2000
_BIG = 24 << 20


def _tree(top: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return top


def _contents(top: Path) -> dict[str, bytes]:
    return {path.relative_to(top).as_posix(): path.read_bytes() for path in top.rglob("*") if path.is_file()}


class TreeChecks(Checks):
    """Files and directories in and out."""

    async def test_a_tree_goes_in_and_out(self, environment: Environment, tmp_path: Path) -> None:
        """With odd names and binary content."""
        files = {"a": b"", "sub dir/ünï\U0001f600": b"\0\xff", "sub dir/-x/$HOME": b"x" * 100_000, ".hidden": b"h"}
        await environment.upload(_tree(tmp_path / "in", files), "/tmp/tree")
        assert await environment.read_file("/tmp/tree/sub dir/ünï\U0001f600") == b"\0\xff"
        await environment.download("/tmp/tree", tmp_path / "out")
        assert _contents(tmp_path / "out") == files

    async def test_a_single_file_goes_in_and_out(self, environment: Environment, tmp_path: Path) -> None:
        """Under the name it is given."""
        (tmp_path / "one").write_bytes(b"one\n")
        await environment.upload(tmp_path / "one", "/tmp/deep/er/two")
        assert await environment.read_file("/tmp/deep/er/two") == b"one\n"
        await environment.download("/tmp/deep/er/two", tmp_path / "new/three")
        assert (tmp_path / "new/three").read_bytes() == b"one\n"

    async def test_uploads_into_a_directory_that_exists_add_to_it(
        self, environment: Environment, tmp_path: Path
    ) -> None:
        """Other files stay, equal names are replaced."""
        await environment.upload(_tree(tmp_path / "1", {"a": b"1", "b": b"1"}), "/tmp/merged")
        await environment.upload(_tree(tmp_path / "2", {"b": b"2", "c/d": b"2"}), "/tmp/merged")
        await environment.download("/tmp/merged", tmp_path / "out")
        assert _contents(tmp_path / "out") == {"a": b"1", "b": b"2", "c/d": b"2"}

    @needs(Capability.PROCESSES, Capability.FILE_METADATA)
    async def test_modes_links_and_empty_directories_are_kept(self, environment: Environment, tmp_path: Path) -> None:
        """In both directions; a broken link is a link."""
        source = _tree(tmp_path / "in", {"run.sh": b"#!/bin/sh\necho ran\n", "dir/data": b"x"})
        (source / "run.sh").chmod(0o755)
        (source / "empty").mkdir()
        (source / "link").symlink_to("dir/data")
        (source / "to-dir").symlink_to("dir")
        (source / "broken").symlink_to("nothing")
        await environment.upload(source, "/tmp/meta")
        seen = await bash(environment, "cd /tmp/meta && ./run.sh && readlink link to-dir broken && ls -A empty")
        assert (seen.stdout, seen.exit_code) == ("ran\ndir/data\ndir\nnothing\n", 0)
        await environment.download("/tmp/meta", tmp_path / "out")
        out = tmp_path / "out"
        assert [str((out / name).readlink()) for name in ("link", "to-dir", "broken")] == ["dir/data", "dir", "nothing"]
        assert (out / "run.sh").stat().st_mode & 0o777 == 0o755
        assert (out / "empty").is_dir()

    @needs(Capability.PROCESSES)
    async def test_many_files(self, environment: Environment, tmp_path: Path) -> None:
        """Thousands, none lost."""
        files = {f"{number % 50}/{number}": b"%d" % number for number in range(_MANY)}
        await environment.upload(_tree(tmp_path / "in", files), "/tmp/thousands")
        assert (await bash(environment, "find /tmp/thousands -type f | wc -l")).stdout.strip() == str(_MANY)
        await environment.download("/tmp/thousands", tmp_path / "out")
        assert _contents(tmp_path / "out") == files
        await bash(environment, "rm -r /tmp/thousands")

    @needs(Capability.PROCESSES)
    async def test_a_crowd_of_files(self, tmp_path: Path) -> None:
        """As a checkout with its dependencies has them; the event loop goes on meanwhile."""
        for number in range(self.crowd):
            if number % 1000 == 0:
                (tmp_path / f"in/{number // 1000}").mkdir(parents=True)
            (tmp_path / f"in/{number // 1000}/{number}").touch()
        async with self.make(disk_mib=2048, memory_mib=4096) as environment, LoopWatch() as watch:
            await environment.upload(tmp_path / "in", "/tmp/crowd")
            counted = await bash(environment, "find /tmp/crowd -type f | wc -l", timeout_s=120)
            assert counted.stdout.strip() == str(self.crowd)
            await environment.download("/tmp/crowd", tmp_path / "out")
        assert sum(len(files) for _, _, files in os.walk(tmp_path / "out")) == self.crowd
        assert watch.worst_s < LOOP_HELD_S, watch.where

    async def test_a_big_file(self, environment: Environment, tmp_path: Path) -> None:
        """Larger than any buffer."""
        content = os.urandom(1 << 20) * (_BIG >> 20)
        (tmp_path / "big").write_bytes(content)
        await environment.upload(tmp_path / "big", "/tmp/big")
        await environment.download("/tmp/big", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == content
        await environment.write_file("/tmp/big", b"")

    @needs(Capability.PROCESSES)
    async def test_uploaded_files_belong_to_whoever_runs_commands(
        self, environment: Environment, tmp_path: Path
    ) -> None:
        """They can be changed and removed, wherever they came from."""
        await environment.upload(_tree(tmp_path / "in", {"d/f": b""}), "/tmp/mine")
        assert (
            await bash(environment, "echo x > /tmp/mine/d/f && touch /tmp/mine/new && rm -r /tmp/mine")
        ).exit_code == 0

    @needs(Capability.PROCESSES)
    @pytest.mark.parametrize("target", ["/etc/passwd", "../../outside", "../outside", "/"])
    async def test_a_download_refuses_links_that_lead_out(
        self, environment: Environment, tmp_path: Path, target: str
    ) -> None:
        """The agent made them."""
        await bash(environment, f"rm -rf /tmp/evil; mkdir /tmp/evil; ln -s {target} /tmp/evil/link")
        with pytest.raises(PermissionError):
            await environment.download("/tmp/evil", tmp_path / "got")
        assert not (tmp_path / "outside").exists()

    @needs(Capability.PROCESSES)
    async def test_special_files_and_special_bits_do_not_come_out(
        self, environment: Environment, tmp_path: Path
    ) -> None:
        """A pipe would hang its reader; set-user-id would outlive the environment."""
        script = "rm -rf /tmp/odd; mkdir /tmp/odd && cd /tmp/odd && mkfifo pipe && touch plain && chmod 6755 plain"
        await bash(environment, script)
        await environment.download("/tmp/odd", tmp_path / "got")
        assert [path.name for path in (tmp_path / "got").iterdir()] == ["plain"]
        assert (tmp_path / "got/plain").stat().st_mode & 0o7777 == 0o755

    @needs(Capability.PROCESSES)
    async def test_hard_links_come_out_as_files(self, environment: Environment, tmp_path: Path) -> None:
        """With their content."""
        await bash(environment, "rm -rf /tmp/hard; mkdir /tmp/hard; echo x > /tmp/hard/a; ln /tmp/hard/a /tmp/hard/b")
        await environment.download("/tmp/hard", tmp_path / "got")
        assert _contents(tmp_path / "got") == {"a": b"x\n", "b": b"x\n"}

    async def test_a_missing_source_is_missing(self, environment: Environment, tmp_path: Path) -> None:
        """On either side."""
        with pytest.raises(FileNotFoundError):
            await environment.download("/nope", tmp_path / "got")
        with pytest.raises(FileNotFoundError):
            await environment.upload(tmp_path / "nope", "/tmp/x")
        assert await environment.is_alive()

    @needs(Capability.PROCESSES)
    async def test_an_upload_to_an_impossible_place_raises(self, environment: Environment, tmp_path: Path) -> None:
        """And the environment goes on."""
        with pytest.raises(OSError):
            await environment.upload(_tree(tmp_path / "in", {"a": b""}), "/proc/nope")
        assert (await environment.exec(["echo", "on"])).stdout == "on\n"
