"""Limits hold, and reaching one costs a command, not the environment."""

from __future__ import annotations

import re

import pytest

from swe_plugin.environments.base import Capability, Environment
from swe_plugin.environments.conformance.checks import Checks, bash, gone, needs

__all__ = ["LimitChecks"]


class LimitChecks(Checks):
    """Memory, processes, CPU, disk, output."""

    @needs(Capability.PROCESSES, Capability.MEMORY_LIMIT)
    async def test_memory_above_the_limit_ends_the_command(self, environment: Environment) -> None:
        """And no other."""
        size_mib = self.limits.memory_mib * 2
        script = f"head -c {size_mib}M /dev/zero | tail -c {size_mib}M | wc -c"
        result = await bash(environment, script, timeout_s=60)
        assert result.stdout.strip() != str(size_mib << 20)
        assert (await environment.exec(["echo", "alive"])).stdout == "alive\n"
        assert (await environment.shell("echo alive")).stdout == "alive\n"

    @needs(Capability.PROCESSES)
    async def test_memory_below_the_limit_is_there(self, environment: Environment) -> None:
        """All that one may expect."""
        size_mib = self.limits.memory_mib // 3
        result = await bash(environment, f"head -c {size_mib}M /dev/zero | tail -c {size_mib}M | wc -c", timeout_s=60)
        assert result.stdout.strip() == str(size_mib << 20)

    @needs(Capability.PROCESSES, Capability.PIDS_LIMIT)
    async def test_processes_above_the_limit_cannot_be_made(self, environment: Environment) -> None:
        """And their end makes room again."""
        count = self.limits.pids * 2
        script = f"for i in $(seq {count}); do sleep 7600 & done 2>/dev/null; jobs -p | wc -l; kill -9 $(jobs -p)"
        result = await bash(environment, script, timeout_s=3)
        assert result.timed_out or not result.stdout or int(result.stdout) < count
        assert await gone(environment, "sleep 7600")
        assert (await environment.shell("echo again", timeout_s=20)).stdout.endswith("again\n")

    @needs(Capability.PROCESSES, Capability.PIDS_LIMIT)
    async def test_a_fork_bomb_ends_with_its_time_limit(self) -> None:
        """The environment answers afterwards."""
        async with self.make() as environment:
            await environment.shell("bomb() { bomb | bomb & }; bomb; sleep 5", timeout_s=1)
            assert (await environment.shell("echo on", timeout_s=20)).stdout.endswith("on\n")
            assert (await environment.exec(["echo", "on"], timeout_s=20)).stdout == "on\n"

    @needs(Capability.PROCESSES, Capability.CPU_LIMIT)
    async def test_cpu_time_is_bounded(self) -> None:
        """Two busy processes get no more than their environment's share."""
        async with self.make(cpus=0.5) as environment:
            script = "for i in 1 2; do timeout 2 sh -c 'while :; do :; done' & done; wait; times"
            result = await bash(environment, script, timeout_s=30)
        minutes, seconds = re.findall(r"(\d+)m([\d.]+)s", result.stdout)[2]
        assert 60 * int(minutes) + float(seconds) < 1.6, result.stdout

    @needs(Capability.PROCESSES, Capability.DISK_LIMIT)
    @pytest.mark.parametrize("directory", ["/tmp", "."])
    async def test_the_disk_is_bounded(self, directory: str) -> None:
        """Everywhere one may write, for commands and for `write_file`."""
        async with self.make(disk_mib=16) as environment:
            result = await bash(environment, f"head -c 40M /dev/zero > {directory}/fill; wc -c < {directory}/fill")
            assert int(result.stdout) <= 17 << 20
            assert "space" in result.stderr or "quota" in result.stderr
            with pytest.raises(OSError):
                await environment.write_file(f"{directory}/more", b"x" * (17 << 20))
            await bash(environment, f"rm {directory}/fill {directory}/more")
            await environment.write_file(f"{directory}/more", b"x")

    @needs(Capability.PROCESSES, Capability.OUTPUT_LIMIT)
    @pytest.mark.parametrize("output_bytes", [100, 4096])
    async def test_output_is_bounded_as_told(self, output_bytes: int) -> None:
        """Per stream and command."""
        async with self.make(output_bytes=output_bytes) as environment:
            result = await bash(environment, "seq 100000; seq 100000 >&2")
            assert result.truncated
            assert output_bytes <= len(result.stdout) <= output_bytes + 100
            assert output_bytes <= len(result.stderr) <= output_bytes + 100
            fits = await bash(environment, f"head -c {output_bytes} /dev/zero | tr '\\0' x")
            assert (len(fits.stdout), fits.truncated) == (output_bytes, False)
