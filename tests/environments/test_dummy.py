"""The in-memory environment that other rooms test against."""

import asyncio

import pytest

from swe_plugin.environments import EnvironmentSpec
from swe_plugin.environments.dummy import DummyBehaviour, DummyEnvironment
from swe_plugin.errors import EnvironmentStartError, EnvironmentUnavailable
from swe_plugin.types import ExecResult, Image

SPEC = EnvironmentSpec(Image(files={"calc.py": "1 - 1\n"}), label="dummy")


async def test_files_of_the_image_can_be_read_and_changed():
    async with DummyEnvironment(SPEC) as environment:
        assert (await environment.shell("cat calc.py")).stdout == "1 - 1\n"
        await environment.write_file("/testbed/calc.py", b"1 + 1\n")
        diff = (await environment.exec(["git", "diff"])).stdout
    assert diff.startswith("diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n")
    assert diff.endswith("-1 - 1\n+1 + 1\n")


async def test_handler_answers_before_the_built_in_commands():
    async def handler(environment, script):
        return ExecResult("3 passed", exit_code=5) if "pytest" in script else None

    async with DummyEnvironment(SPEC, handler=handler) as environment:
        assert (await environment.exec(["bash", "-c", "pytest -q"])).exit_code == 5
        assert (await environment.shell("echo hi")).stdout == "hi\n"
        assert (await environment.shell("nonsense")).exit_code == 127
    assert environment.commands == ["pytest -q", "echo hi", "nonsense"]


async def test_slow_command_times_out_as_a_result():
    async with DummyEnvironment(SPEC, behaviour=DummyBehaviour(command_s=5)) as environment:
        result = await environment.shell("true", timeout_s=0.01)
    assert result.timed_out
    assert result.exit_code == -1


async def test_start_fails_as_told():
    with pytest.raises(EnvironmentStartError, match="dummy: no such image"):
        await DummyEnvironment(SPEC, behaviour=DummyBehaviour(fail_start="no such image")).start()


async def test_start_hangs_as_told():
    environment = DummyEnvironment(EnvironmentSpec(Image(), options={"hang_start": True}))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(environment.start(), 0.01)
    assert not await environment.is_alive()


async def test_dies_after_the_told_number_of_commands():
    environment = DummyEnvironment(SPEC, behaviour=DummyBehaviour(die_after=1))
    async with environment:
        await environment.shell("true")
        with pytest.raises(EnvironmentUnavailable):
            await environment.shell("true")
        assert not await environment.is_alive()
