"""What `ExecEnvironment` adds to a plain `run`, and `run_process`; the example plugin's suite covers the contract."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from swe_plugin.environments import AGENT_ENV, EnvironmentSpec
from swe_plugin.environments.by_exec import ExecEnvironment
from swe_plugin.environments.process import run_process
from swe_plugin.errors import EnvironmentStartError, EnvironmentUnavailable
from swe_plugin.types import Image

from .conftest import host_processes

NAP = f"sleep 61.{os.getpid()}"
"""A command of this test run alone."""


class Remote(ExecEnvironment):
    """A place that is reached over a line; `line` breaks it."""

    line = ""

    async def launch(self):
        self.removed = 0

    async def remove(self):
        self.removed += 1
        for state in (self._last, self._next):
            Path(state).unlink(missing_ok=True)

    async def is_running(self):
        if self.line == "gone":
            raise OSError("no route to host")
        return True

    async def run(self, argv, *, timeout_s, stdin):
        if self.line:
            raise OSError("connection reset")
        return await run_process(argv, timeout_s=timeout_s, stdin=stdin)


@pytest.fixture
def spec(tmp_path):
    env = {**AGENT_ENV, "HOME": str(tmp_path / "home")}
    return EnvironmentSpec(Image(workdir=str(tmp_path / "w"), files={"a": "1"}), env=env, label="far")


@pytest.fixture
def remote(spec):
    return Remote(spec)


async def test_whatever_the_way_there_raises_is_an_unavailable_environment(remote):
    async with remote:
        assert (await remote.exec(["cat", "a"])).stdout == "1"
        remote.line = "cut"
        with pytest.raises(EnvironmentUnavailable, match="far: OSError: connection reset"):
            await remote.exec(["true"])
        assert await remote.is_alive()
        remote.line = "gone"
        assert not await remote.is_alive()


async def test_a_start_that_fails_is_undone_once(remote):
    remote.line = "cut"
    with pytest.raises(EnvironmentUnavailable):
        await remote.start()
    assert remote.removed == 1
    with pytest.raises(EnvironmentStartError, match="once"):
        await remote.start()


async def test_what_was_never_started_has_nothing_to_remove(remote):
    await remote.stop()
    assert not hasattr(remote, "removed")


async def test_files_outside_of_the_work_directory_are_refused(spec):
    image = replace(spec.image, files={"../outside": ""})
    with pytest.raises(EnvironmentStartError, match=r"image\.files"):
        await Remote(replace(spec, image=image)).start()


async def test_shell_state_has_odd_values_aliases_and_options(remote):
    async with remote:
        await remote.shell(
            "name='a\nb'; readonly fixed=1; list=(x 'y z'); alias hi='echo hi'; shopt -s nullglob; set -f"
        )
        done = await remote.shell('echo "$name" $fixed "${list[1]}" *; hi; shopt nullglob; echo $#')
        assert done.stdout == "a\nb 1 y z *\nhi\nnullglob       \ton\n0\n"


class Deaf(Remote):
    takes_stdin = False

    async def run(self, argv, *, timeout_s, stdin):
        assert stdin == b""
        assert max(map(len, argv)) < 128 << 10
        return await super().run(argv, timeout_s=timeout_s, stdin=stdin)


async def test_a_way_there_without_stdin_is_enough(spec, tmp_path):
    content = bytes(range(256)) * 1000
    async with Deaf(spec) as remote:
        await remote.write_file("big", content)
        assert (tmp_path / "w/big").read_bytes() == await remote.read_file("big") == content
        assert (await remote.exec(["wc", "-c"], stdin=content)).stdout == f"{len(content)}\n"
        assert (await remote.shell("cat; wc -c < big")).stdout == f"{len(content)}\n"


async def test_a_cancelled_command_is_dead():
    command = asyncio.create_task(run_process(NAP.split()))
    await asyncio.sleep(0.2)
    command.cancel()
    with pytest.raises(asyncio.CancelledError):
        await command
    assert not host_processes(NAP)


async def test_a_command_has_no_variables_of_this_process(monkeypatch):
    monkeypatch.setenv("TOKEN", "secret")
    assert (await run_process(["env"])).stdout == f"PATH={os.environ['PATH']}\n"


@pytest.mark.parametrize(
    ("argv", "code"),
    [(["no-such-program"], 127), (["/"], 126), (["bash", "-c", "kill -9 $$"], 137), (["bash", "-c", "exit 3"], 3)],
)
async def test_exit_codes_are_the_shells(argv, code):
    assert (await run_process(argv)).exit_code == code


async def test_the_middle_of_a_long_output_is_dropped():
    script = "printf a; head -c 3000000 /dev/zero | tr '\\0' -; printf z"
    done = await run_process(["bash", "-c", script], output_bytes=100)
    assert done.truncated
    assert done.stdout == "a" + "-" * 49 + "\n[... 2999902 bytes dropped ...]\n" + "-" * 49 + "z"


async def test_the_limit_of_a_command_holds_however_many_run():
    running = [run_process(NAP.split(), timeout_s=1.0) for _ in range(128)]
    done = await asyncio.wait_for(asyncio.gather(*running), 60)
    assert all(result.timed_out for result in done)
    assert max(result.duration_s for result in done) < 10
    assert host_processes(NAP) == []
