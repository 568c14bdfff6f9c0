"""Started once, used, stopped; nothing in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from swe_plugin.environments.base import Capability, Environment
from swe_plugin.environments.conformance.checks import Checks, needs
from swe_plugin.errors import EnvironmentStartError, EnvironmentUnavailable
from swe_plugin.types import Image

__all__ = ["CALLS", "LifecycleChecks"]

CALLS: dict[str, Callable[[Environment, Path], Awaitable[object]]] = {
    "exec": lambda environment, _: environment.exec(["true"]),
    "shell": lambda environment, _: environment.shell("true"),
    "read_file": lambda environment, _: environment.read_file("calc.py"),
    "write_file": lambda environment, _: environment.write_file("new", b""),
    "upload": lambda environment, path: environment.upload(path, "/tmp/up"),
    "download": lambda environment, path: environment.download("calc.py", path / "down"),
}
"""Every method that needs a living environment."""


class LifecycleChecks(Checks):
    """start, stop, is_alive."""

    async def test_an_environment_is_alive_from_start_to_stop(self) -> None:
        """And not before, not after."""
        environment = self.make()
        assert not await environment.is_alive()
        await environment.start()
        assert await environment.is_alive()
        await environment.stop()
        assert not await environment.is_alive()

    async def test_stop_is_idempotent_and_safe_before_a_start(self) -> None:
        """Clean-up code may call it at any time."""
        environment = self.make()
        await environment.stop()
        await environment.start()
        await asyncio.gather(environment.stop(), environment.stop())
        await environment.stop()
        assert not await environment.is_alive()

    async def test_an_environment_is_started_once(self) -> None:
        """A second start is an error and does no harm."""
        async with self.make() as environment:
            with pytest.raises(EnvironmentStartError):
                await environment.start()
            assert (await environment.exec(["echo", "fine"])).stdout == "fine\n"

    async def test_a_stopped_environment_cannot_be_started_again(self) -> None:
        """It is single use."""
        environment = self.make()
        await environment.start()
        await environment.stop()
        with pytest.raises(EnvironmentStartError):
            await environment.start()
        assert not await environment.is_alive()

    async def test_an_error_in_the_block_stops_the_environment(self) -> None:
        """And is passed on."""
        environment = self.make()
        with pytest.raises(ZeroDivisionError):
            async with environment:
                raise ZeroDivisionError
        assert not await environment.is_alive()

    @pytest.mark.parametrize("call", CALLS)
    async def test_nothing_works_before_a_start(self, call: str, tmp_path: Path) -> None:
        """It is unavailable, which is not the command's failure."""
        with pytest.raises(EnvironmentUnavailable):
            await CALLS[call](self.make(), tmp_path)

    @pytest.mark.parametrize("call", CALLS)
    async def test_nothing_works_after_a_stop(self, call: str, tmp_path: Path) -> None:
        """The same."""
        async with self.make() as environment:
            pass
        with pytest.raises(EnvironmentUnavailable):
            await CALLS[call](environment, tmp_path)

    async def test_the_image_s_files_are_in_the_work_directory(self, environment: Environment) -> None:
        """Commands start there, and relative paths count from there."""
        assert (await environment.exec(["pwd"])).stdout == f"{self.image.workdir}\n"
        assert (await environment.shell("pwd")).stdout == f"{self.image.workdir}\n"
        assert (await environment.read_file("pkg/data.txt")).decode() == self.image.files["pkg/data.txt"]

    async def test_files_of_the_image_are_written_as_they_are(self) -> None:
        """Into the directory that the image names."""
        image = Image(self.image.base, {"sub dir/ünï": "é\r\nno end", "calc.py": ""}, workdir="/srv/other")
        async with self.make(image) as environment:
            assert await environment.read_file("/srv/other/sub dir/ünï") == "é\r\nno end".encode()
            assert (await environment.exec(["pwd"])).stdout == "/srv/other\n"

    @needs(Capability.PROCESSES, Capability.IMAGES)
    async def test_the_repository_is_clean_and_has_one_commit(self) -> None:
        """No history, no remote and no reflog that could lead to a fix."""
        async with self.make() as environment:
            assert (await environment.exec(["git", "status", "--porcelain"])).stdout == ""
            assert (await environment.exec(["git", "rev-list", "--all", "--count"])).stdout == "1\n"
            assert (await environment.exec(["git", "remote"])).stdout == ""
            assert (await environment.exec(["git", "reflog"])).stdout == ""

    async def test_environments_share_no_files(self) -> None:
        """Not even through the image."""
        async with self.make() as first, self.make() as second:
            await first.write_file("calc.py", b"changed")
            await first.write_file("/tmp/mine", b"")
            assert (await second.read_file("calc.py")).decode() == self.image.files["calc.py"]
            with pytest.raises(FileNotFoundError):
                await second.read_file("/tmp/mine")

    @needs(Capability.IMAGES)
    async def test_an_unusable_image_fails_the_start(self) -> None:
        """The message says which."""
        environment = self.make(self.unusable_image)
        with pytest.raises(EnvironmentStartError) as caught:
            await environment.start()
        assert self.unusable_image.base.partition(":")[2] in str(caught.value)
        assert not await environment.is_alive()
        await environment.stop()

    @needs(Capability.IMAGES)
    async def test_a_missing_work_directory_fails_the_start(self) -> None:
        """The message names it."""
        with pytest.raises(EnvironmentStartError, match="/nowhere"):
            await self.make(Image(self.image.base, workdir="/nowhere")).start()

    @needs(Capability.PROCESSES)
    async def test_a_start_that_takes_too_long_fails(self) -> None:
        """And leaves nothing that is alive."""
        environment = self.make(start_timeout_s=0.0005)
        with pytest.raises(EnvironmentStartError):
            await environment.start()
        assert not await environment.is_alive()

    @pytest.mark.parametrize("after_s", [0.0, 0.002, 0.01, 0.05, 0.2])
    async def test_a_start_can_be_cancelled_at_any_time(self, after_s: float) -> None:
        """Stopping afterwards is enough."""
        environment = self.make()
        task = asyncio.ensure_future(environment.start())
        await asyncio.sleep(after_s)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await environment.stop()
        assert not await environment.is_alive()
