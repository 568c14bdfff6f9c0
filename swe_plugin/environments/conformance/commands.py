"""`exec`: one command in a fresh process."""

from __future__ import annotations

import asyncio
import shlex
import time

import pytest

from swe_plugin.environments.base import Capability, Environment
from swe_plugin.environments.conformance.checks import OWN_SESSION, Checks, bash, gone, needs

__all__ = ["CommandChecks"]

_ALL_SIGNALS = "trap '' HUP INT QUIT TERM PIPE USR1 USR2"


class CommandChecks(Checks):
    """exec."""

    @pytest.mark.parametrize(("argv", "exit_code"), [(["true"], 0), (["false"], 1), (["bash", "-c", "exit 254"], 254)])
    async def test_the_exit_code_is_the_command_s(
        self, environment: Environment, argv: list[str], exit_code: int
    ) -> None:
        """A failure is a result."""
        if len(argv) > 1 and Capability.PROCESSES in self.lacks():
            argv = ["bash", "-c", "exit 254"]
        result = await environment.exec(argv)
        assert (result.exit_code, result.timed_out, result.truncated) == (exit_code, False, False)

    @needs(Capability.PROCESSES)
    async def test_streams_are_kept_apart(self, environment: Environment) -> None:
        """stdout and stderr."""
        result = await bash(environment, "echo out; echo err >&2; exit 5")
        assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 5)

    @needs(Capability.PROCESSES)
    @pytest.mark.parametrize(("name", "exit_code"), [("KILL", 137), ("TERM", 143), ("SEGV", 139)])
    async def test_a_signal_is_128_plus_its_number(self, environment: Environment, name: str, exit_code: int) -> None:
        """As a shell reports it."""
        assert (await bash(environment, f"kill -{name} $$")).exit_code == exit_code

    @needs(Capability.PROCESSES)
    @pytest.mark.parametrize("word", ["a b", "$HOME", "it's", "", "*", "a\nb", "-n", "é\U0001f600", "\\", "\udcff"])
    async def test_arguments_arrive_as_they_are(self, environment: Environment, word: str) -> None:
        """No shell looks at them; undecodable bytes travel as surrogates."""
        result = await environment.exec(["bash", "-c", 'printf "%s" "$2" | od -An -tx1 | tr -d " \\n"', "x", "y", word])
        assert bytes.fromhex(result.stdout) == word.encode(errors="surrogateescape")

    @needs(Capability.PROCESSES)
    async def test_a_long_argument_arrives_whole(self, environment: Environment) -> None:
        """As long as the kernel takes one."""
        result = await environment.exec(["bash", "-c", "echo ${#1}", "x", "y" * 120_000])
        assert (result.stdout, result.exit_code) == ("120000\n", 0)

    @pytest.mark.parametrize("argv", [[], ["a\0b"]], ids=["empty", "nul"])
    async def test_an_impossible_command_line_is_refused(self, environment: Environment, argv: list[str]) -> None:
        """It is the caller's mistake, so it raises."""
        with pytest.raises(ValueError, match="argv"):
            await environment.exec(argv)

    @needs(Capability.PROCESSES)
    @pytest.mark.parametrize(
        ("argv", "cwd", "exit_code"),
        [(["no-such-program"], None, 127), (["/etc/passwd"], None, 126), (["true"], "/nowhere", 126)],
    )
    async def test_a_command_that_cannot_start_is_a_result(
        self, environment: Environment, argv: list[str], cwd: str | None, exit_code: int
    ) -> None:
        """With the reason on stderr."""
        result = await environment.exec(argv, cwd=cwd)
        assert result.exit_code == exit_code
        assert result.stderr

    @needs(Capability.PROCESSES)
    async def test_the_directory_can_be_chosen(self, environment: Environment) -> None:
        """For one command, whatever its name is."""
        await bash(environment, "mkdir -p '/tmp/odd $dir'")
        for directory in ("/usr/bin", "/tmp/odd $dir"):
            assert (await environment.exec(["pwd"], cwd=directory)).stdout == f"{directory}\n"
        assert (await environment.exec(["pwd"])).stdout == f"{self.image.workdir}\n"

    @needs(Capability.PROCESSES)
    async def test_variables_are_added_for_one_command(self, environment: Environment) -> None:
        """Values arrive as they are, those of the spec stay, and the command's own come first."""
        value = "two words\n$x 'é'"
        result = await environment.exec(["bash", "-c", 'printf "%s|%s" "$X" "$PATH"'], env={"X": value})
        assert result.stdout == f"{value}|{environment.spec.env['PATH']}"
        assert (await bash(environment, "echo ${X-unset}")).stdout == "unset\n"
        assert (await bash(environment, "echo $TERM", env={"TERM": "other"})).stdout == "other\n"

    @needs(Capability.PROCESSES)
    async def test_stdin_is_fed_and_closed(self, environment: Environment) -> None:
        """Byte for byte, and more than a pipe holds."""
        assert (await environment.exec(["cat"])).stdout == ""
        assert (await environment.exec(["od", "-An", "-tx1"], stdin=b"\0\xff\n")).stdout == " 00 ff 0a\n"
        assert (await environment.exec(["wc", "-c"], stdin=b"x" * 3_000_000)).stdout.strip() == "3000000"

    @needs(Capability.PROCESSES)
    async def test_stdin_that_nobody_reads_is_no_problem(self, environment: Environment) -> None:
        """Neither for the command nor for the next one."""
        assert (await environment.exec(["true"], stdin=b"x" * 3_000_000)).exit_code == 0
        assert (await environment.exec(["echo", "next"])).stdout == "next\n"

    @needs(Capability.PROCESSES)
    async def test_binary_output_is_replaced_where_it_is_not_utf_8(self, environment: Environment) -> None:
        """On both streams."""
        result = await bash(environment, r"printf 'a\0b\377\n'; printf '\300' >&2")
        assert (result.stdout, result.stderr) == ("a\0b\ufffd\n", "\ufffd")

    @needs(Capability.PROCESSES, Capability.OUTPUT_LIMIT)
    @pytest.mark.parametrize("stream", ["stdout", "stderr"])
    async def test_huge_output_is_cut_in_the_middle(self, environment: Environment, stream: str) -> None:
        """First and last line are there, the length is bounded, and the result says so."""
        redirect = "" if stream == "stdout" else " >&2"
        result = await bash(environment, f"(echo first; yes | head -c 30M; echo last){redirect}; echo $?")
        text = getattr(result, stream)
        assert result.truncated
        assert text.startswith("first\ny\n")
        assert "y\nlast\n" in text
        assert len(text) <= self.limits.output_bytes + 200
        assert result.exit_code == 0

    @needs(Capability.PROCESSES)
    async def test_a_time_out_ends_the_whole_tree_and_keeps_what_was_said(self, environment: Environment) -> None:
        """Children in their own sessions and orphans included."""
        orphans = f"{OWN_SESSION} sleep 7002 & ({OWN_SESSION} nohup sleep 7003 2>/dev/null &)"
        script = f"echo before; echo err >&2; sleep 7001 & {orphans}; exec sleep 7004"
        result = await bash(environment, script, timeout_s=2)
        assert (result.stdout, result.stderr) == ("before\n", "err\n")
        assert (result.timed_out, result.exit_code) == (True, -1)
        assert result.duration_s < 10
        assert await gone(environment, "sleep 700")

    @needs(Capability.PROCESSES)
    async def test_a_time_out_cannot_be_ignored(self, environment: Environment) -> None:
        """Whatever is trapped."""
        result = await bash(environment, f"{_ALL_SIGNALS}; while :; do :; done", timeout_s=0.3)
        assert result.timed_out
        assert result.duration_s < 5

    async def test_a_slow_command_times_out_as_a_result(self, environment: Environment) -> None:
        """Not as an exception, and the environment goes on."""
        result = await environment.exec(["sleep", "60"], timeout_s=0.2)
        assert (result.timed_out, result.exit_code) == (True, -1)
        assert 0.2 <= result.duration_s < 20
        assert (await environment.exec(["echo", "next"])).stdout == "next\n"

    @needs(Capability.PROCESSES)
    async def test_a_background_process_does_not_hold_the_answer_back(self, environment: Environment) -> None:
        """Even if it has the output open."""
        result = await bash(environment, "sleep 7100 & echo started", timeout_s=20)
        assert (result.stdout, result.timed_out) == ("started\n", False)
        assert result.duration_s < 10
        await bash(environment, "pkill -f 'sleep 7100' || true")

    async def test_the_duration_is_the_command_s(self, environment: Environment) -> None:
        """In seconds."""
        result = await environment.exec(["sleep", "0.3"])
        assert 0.3 <= result.duration_s < 5

    @needs(Capability.PROCESSES)
    async def test_commands_run_side_by_side(self, environment: Environment) -> None:
        """Each gets its own output."""
        began = time.monotonic()
        jobs = (bash(environment, f"sleep 0.5; echo {number}; echo {-number} >&2") for number in range(12))
        results = await asyncio.gather(*jobs)
        assert [result.stdout for result in results] == [f"{number}\n" for number in range(12)]
        assert [result.stderr for result in results] == [f"{-number}\n" for number in range(12)]
        assert time.monotonic() - began < 5

    @needs(Capability.PROCESSES)
    async def test_a_hundred_commands_in_a_row_lose_nothing(self, environment: Environment) -> None:
        """Every output and every exit code is the right one."""
        for number in range(100):
            result = await bash(environment, f"echo {shlex.quote(str(number))}; exit {number}")
            assert (result.stdout, result.exit_code) == (f"{number}\n", number)

    @needs(Capability.PROCESSES)
    async def test_a_connected_command_is_talked_to(self, environment: Environment) -> None:
        """Both ways, byte for byte and more than a pipe holds, until the block ends: then nothing of it is left."""
        script = "sleep 7201 & cat"
        async with environment.connect(["bash", "-c", script], timeout_s=60) as connection:
            for message in (b"hello", b"\0\xff\n" * 100_000):
                writing = asyncio.ensure_future(connection.write(message))
                received = b""
                while len(received) < len(message) and (data := await connection.read()):
                    received += data
                await writing
                assert received == message
            assert not connection.ended.done()
        assert await gone(environment, "sleep 7201")

    @needs(Capability.PROCESSES)
    async def test_a_connected_command_that_ends_is_a_result(self, environment: Environment) -> None:
        """Whoever still talks to it is not held."""
        async with environment.connect(["bash", "-c", "echo why >&2; exit 3"], timeout_s=60) as connection:
            assert await connection.read() == b""
            result = await connection.ended
            await connection.write(b"x")
        assert (result.exit_code, result.stderr) == (3, "why\n")
