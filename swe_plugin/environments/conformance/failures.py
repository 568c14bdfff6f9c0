"""Cancellation at any await, dead environments, many at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from swe_plugin.environments.base import Capability, Environment
from swe_plugin.environments.conformance.checks import LOOP_HELD_S, OWN_SESSION, Checks, bash, gone, needs
from swe_plugin.environments.conformance.lifecycle import CALLS
from swe_plugin.environments.conformance.loop_watch import LoopWatch
from swe_plugin.errors import EnvironmentUnavailable

__all__ = ["FailureChecks"]

_AT_ONCE = 6


class FailureChecks(Checks):
    """What goes wrong stays with whom it belongs to."""

    @needs(Capability.PROCESSES)
    @pytest.mark.parametrize("way", ["exec", "shell"])
    @pytest.mark.parametrize("after_s", [0.0, 0.001, 0.005, 0.02, 0.2])
    async def test_a_cancelled_command_is_dead_when_the_cancellation_returns(
        self, environment: Environment, way: str, after_s: float
    ) -> None:
        """With all it started; the environment goes on."""
        script = f"sleep 7701 & {OWN_SESSION} sleep 7702 & sleep 7703"
        call = environment.shell(script) if way == "shell" else bash(environment, script)
        task = asyncio.ensure_future(call)
        await asyncio.sleep(after_s)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await gone(environment, "sleep 770")
        assert (await environment.shell("echo usable")).stdout == "usable\n"

    @pytest.mark.parametrize("call", CALLS)
    @pytest.mark.parametrize("after_s", [0.0, 0.003])
    async def test_any_call_can_be_cancelled(
        self, environment: Environment, call: str, after_s: float, tmp_path: Path
    ) -> None:
        """The next ones are answered, each by its own answer."""
        task = asyncio.ensure_future(CALLS[call](environment, tmp_path))
        await asyncio.sleep(after_s)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (await environment.shell("echo shell")).stdout == "shell\n"
        assert (await environment.exec(["echo", "exec"])).stdout == "exec\n"

    @needs(Capability.PROCESSES)
    @pytest.mark.parametrize("after_s", [0.005, 0.05, 0.2])
    async def test_a_cancelled_transfer_leaves_the_environment_usable(
        self, environment: Environment, after_s: float, tmp_path: Path
    ) -> None:
        """In both directions."""
        (tmp_path / "big").write_bytes(bytes(32 << 20))
        for call in (environment.upload(tmp_path / "big", "/tmp/b"), environment.download("/usr/bin", tmp_path / "o")):
            task = asyncio.ensure_future(call)
            await asyncio.sleep(after_s)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert (await environment.exec(["echo", "exec"])).stdout == "exec\n"

    @pytest.mark.parametrize("call", CALLS)
    async def test_a_dead_environment_is_unavailable(self, call: str, tmp_path: Path) -> None:
        """No matter what is asked of it; that is no result."""
        async with self.make() as environment:
            await self.crash(environment)
            with pytest.raises(EnvironmentUnavailable):
                await asyncio.wait_for(CALLS[call](environment, tmp_path), 30)

    @pytest.mark.parametrize("way", ["exec", "shell"])
    async def test_a_running_command_of_a_dying_environment_raises_at_once(self, way: str) -> None:
        """It is neither a result nor a time-out."""
        async with self.make() as environment:
            call = environment.shell("sleep 50") if way == "shell" else environment.exec(["sleep", "50"])
            task = asyncio.ensure_future(call)
            await asyncio.sleep(0.2)
            await self.kill(environment)
            with pytest.raises(EnvironmentUnavailable):
                await asyncio.wait_for(task, 20)

    async def test_a_dead_environment_can_be_stopped(self) -> None:
        """Without an error, any number of times."""
        environment = self.make()
        await environment.start()
        await self.crash(environment)
        await environment.stop()
        await environment.stop()
        assert not await environment.is_alive()

    async def test_a_command_that_runs_while_the_environment_is_stopped_raises(self) -> None:
        """It does not hang."""
        environment = self.make()
        await environment.start()
        task = asyncio.ensure_future(environment.exec(["sleep", "50"]))
        await asyncio.sleep(0.1)
        await environment.stop()
        with pytest.raises(EnvironmentUnavailable):
            await asyncio.wait_for(task, 20)

    async def test_many_environments_at_once(self) -> None:
        """Each its own; no call sleeps on the event loop."""

        async def rollout(number: int) -> str:
            async with self.make() as environment:
                return (await environment.shell(f"echo {number}")).stdout

        async with LoopWatch() as watch:
            outputs = await asyncio.gather(*(rollout(number) for number in range(_AT_ONCE)))
        assert outputs == [f"{number}\n" for number in range(_AT_ONCE)]
        assert watch.worst_s < LOOP_HELD_S, watch.where
