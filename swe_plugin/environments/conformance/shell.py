"""`shell`: whatever a script does, the next one gets its own output and its own exit code."""

from __future__ import annotations

import asyncio

import pytest

from swe_plugin.environments.base import Capability, Environment
from swe_plugin.environments.conformance.checks import OWN_SESSION, Checks, bash, gone, needs, running

__all__ = ["ShellChecks"]

_real = needs(Capability.PROCESSES)
_session = needs(Capability.PROCESSES, Capability.SESSION)

SCRIPTS = [
    ("echo hi", "hi\n", 0),
    ("false", "", 1),
    ("", "", 0),
    ("# only a comment", "", 0),
    ("(exit 7)", "", 7),
    ("printf 'no newline'", "no newline", 0),
    ('echo "it\'s" \'a "quote"\' \\$x', 'it\'s a "quote" $x\n', 0),
    ("cat <<EOF\na $((1+1))\nEOF", "a 2\n", 0),
    ("cat <<'A'; cat <<B\n$x\nA\ny\nB\n", "$x\ny\n", 0),
    ("cat <<-X\n\tindented\n\tX", "indented\n", 0),
    ("for i in 1 2; do\n  echo $i\ndone", "1\n2\n", 0),
    ("echo out; echo err >&2", "out\nerr\n", 0),
    ("read x; echo got=$x", "got=\n", 0),
    ("cat", "", 0),
    ("wc -c", "0\n", 0),
    ("printf 'a\\0b\\xff\\n'", "a\0b\ufffd\n", 0),
    ("echo '!!' !x", "!! !x\n", 0),
    ("echo to-stdout > /dev/stdout; echo to-stderr > /dev/stderr", "to-stdout\nto-stderr\n", 0),
    ("kill -TERM $BASHPID; echo on", "on\n", 0),
    ("no-such-command 2>/dev/null", "", 127),
    ("f() { return 9; }; f", "", 9),
    ("false | true", "", 0),
    ("echo é\U0001f600", "é\U0001f600\n", 0),
    ("echo a\\\n  b", "a b\n", 0),
]
STUBBORN = [
    "while :; do :; done",
    "trap '' INT; while :; do :; done",
    "trap '' INT TERM HUP; sleep 7200",
    "while :; do sleep 1; done",
    "yes",
    "builtin printf() { :; }; sleep 7200",
]


class ShellChecks(Checks):
    """The persistent shell."""

    @_real
    @pytest.mark.parametrize(("script", "stdout", "exit_code"), SCRIPTS)
    async def test_output_and_exit_code(
        self, environment: Environment, script: str, stdout: str, exit_code: int
    ) -> None:
        """Exactly what the script did."""
        result = await environment.shell(script, timeout_s=10)
        assert (result.stdout, result.exit_code) == (stdout, exit_code)
        assert (result.timed_out, result.truncated) == (False, False)

    async def test_a_slow_script_times_out_as_a_result(self, environment: Environment) -> None:
        """And the next one is answered."""
        result = await environment.shell("sleep 60", timeout_s=0.2)
        assert (result.timed_out, result.exit_code) == (True, -1)
        assert 0.2 <= result.duration_s < 20
        assert (await environment.shell("echo next")).stdout == "next\n"

    @_real
    async def test_directory_variables_functions_and_options_survive(self, environment: Environment) -> None:
        """From call to call."""
        await environment.shell("cd pkg; export A=1; f() { echo f$1; }; set -f")
        assert (await environment.shell("pwd; echo $A *; f 2")).stdout == f"{self.image.workdir}/pkg\n1 *\nf2\n"
        assert (await environment.shell(f"set +f; cd {self.image.workdir}; echo $A")).stdout == "1\n"

    @_session
    async def test_an_unset_variable_ends_the_script_and_not_the_shell(self, environment: Environment) -> None:
        """With `set -u`."""
        assert "unbound variable" in (await environment.shell("A=1; set -u; echo $nope; echo on")).stdout
        assert (await environment.shell("set +u; echo $A")).stdout == "1\n"

    @_real
    async def test_a_script_that_shows_how_it_is_run_forges_nothing(self, environment: Environment) -> None:
        """Whatever it prints of its own framing, output and exit code are those of the script."""
        script = "set; declare -f; tr '\\0' '\\n' < /proc/$$/cmdline; env; trap -p; history; echo last; (exit 5)"
        for _ in range(2):
            result = await environment.shell(script)
            assert result.stdout.endswith("\nlast\n")
            assert result.exit_code == 5

    @_real
    async def test_exec_shares_no_state_with_the_shell(self, environment: Environment) -> None:
        """Neither directory nor variables."""
        await environment.shell("cd /usr; export SHARED=1")
        assert (await bash(environment, "pwd; echo ${SHARED-unset}")).stdout == f"{self.image.workdir}\nunset\n"

    @_real
    @pytest.mark.parametrize(
        ("script", "exit_code"),
        [("exit 3", 3), ("exec false", 1), ("set -e; false", 1), ("kill -9 $$", 137), ("exec sh -c 'exit 9'", 9)],
    )
    async def test_ending_the_shell_costs_its_variables_and_nothing_else(
        self, environment: Environment, script: str, exit_code: int
    ) -> None:
        """The true exit code, and the next shell is in the last directory."""
        await environment.shell("cd pkg; LOST=1")
        assert (await environment.shell(script, timeout_s=10)).exit_code == exit_code
        result = await environment.shell('echo "${LOST-unset} $PWD"')
        assert (result.stdout, result.exit_code) == (f"unset {self.image.workdir}/pkg\n", 0)

    @_real
    async def test_a_removed_directory_does_not_end_the_shell(self, environment: Environment) -> None:
        """Nor does the next shell need it."""
        await environment.shell("mkdir /tmp/gone && cd /tmp/gone && rmdir /tmp/gone")
        assert (await environment.shell("echo on")).stdout == "on\n"
        await environment.shell("exit")
        assert (await environment.shell("echo again")).stdout == "again\n"

    @_real
    @pytest.mark.parametrize(
        "script",
        [
            "cat <<EOF\nnever closed",
            "echo 'never closed",
            'echo "',
            "if true; then",
            "echo $(",
            "}",
            "case x in",
            "(",
            "`",
        ],
    )
    async def test_broken_syntax_fails_fast_and_leaves_the_shell_usable(
        self, environment: Environment, script: str
    ) -> None:
        """Unterminated heredocs and quotes wait for nothing."""
        assert not (await environment.shell(script, timeout_s=10)).timed_out
        result = await environment.shell("echo usable; (exit 4)")
        assert (result.stdout, result.exit_code) == ("usable\n", 4)

    @_session
    async def test_background_jobs_do_not_hold_the_answer_back_and_live_on(self, environment: Environment) -> None:
        """Until they are killed."""
        result = await environment.shell("sleep 7300 & echo started", timeout_s=20)
        assert result.stdout.endswith("started\n")
        assert result.duration_s < 10
        assert await running(environment, "sleep 7300")
        await environment.shell("kill %1; wait")
        assert await gone(environment, "sleep 7300")

    @_session
    async def test_output_of_a_background_job_comes_with_a_later_script(self, environment: Environment) -> None:
        """It is not lost, and disturbs no exit code."""
        await environment.shell("(sleep 0.3; echo late) &")
        result = await environment.shell("sleep 1; (exit 6)")
        assert "late\n" in result.stdout
        assert result.exit_code == 6

    @needs(Capability.PROCESSES, Capability.OUTPUT_LIMIT)
    async def test_huge_output_is_bounded_and_cut_in_the_middle(self, environment: Environment) -> None:
        """First and last line are kept."""
        result = await environment.shell("echo first; yes | head -c 50M; echo last", timeout_s=60)
        assert (result.exit_code, result.truncated) == (0, True)
        assert result.stdout.startswith("first\ny\n")
        assert result.stdout.endswith("y\nlast\n")
        assert len(result.stdout) <= self.limits.output_bytes + 200

    @_real
    async def test_a_long_script_arrives_whole(self, environment: Environment) -> None:
        """Longer than any pipe or command line."""
        words = " ".join(map(str, range(40_000)))
        assert (await environment.shell(f"echo {words}")).stdout == f"{words}\n"

    @_real
    async def test_a_time_out_keeps_output_and_ends_the_whole_tree(self, environment: Environment) -> None:
        """Whatever the script did to be orphaned."""
        orphans = f"{OWN_SESSION} sleep 7402 & ({OWN_SESSION} sleep 7403 &)"
        script = f"echo before; sleep 7401 & {orphans}; sleep 7404"
        result = await environment.shell(script, timeout_s=2)
        assert (result.timed_out, result.exit_code) == (True, -1)
        assert "before\n" in result.stdout
        assert result.duration_s < 10
        assert await gone(environment, "sleep 740")

    @_real
    async def test_a_background_job_does_not_hold_the_answer_back(self, environment: Environment) -> None:
        """Even if it has the output open."""
        result = await environment.shell("sleep 7310 & echo started; kill -9 $$", timeout_s=20)
        assert (result.stdout.splitlines()[-1], result.exit_code) == ("started", 137)
        assert result.duration_s < 10

    @_real
    async def test_a_time_out_spares_the_state(self, environment: Environment) -> None:
        """Variables and directory are as before it."""
        await environment.shell("cd pkg; V=kept")
        assert (await environment.shell("sleep 7502", timeout_s=0.3)).timed_out
        assert (await environment.shell("echo $V $PWD")).stdout == f"kept {self.image.workdir}/pkg\n"

    @_session
    async def test_a_time_out_spares_earlier_background_jobs(self, environment: Environment) -> None:
        """Only what the script itself started is ended."""
        await environment.shell("sleep 7500 &")
        assert (await environment.shell("sleep 7501", timeout_s=0.3)).timed_out
        assert await running(environment, "sleep 7500")
        assert await gone(environment, "sleep 7501")
        await environment.shell("kill %1; wait")

    @_real
    @pytest.mark.parametrize("script", STUBBORN)
    async def test_a_stubborn_script_is_ended_and_the_next_answer_is_right(
        self, environment: Environment, script: str
    ) -> None:
        """At the price of the shell, if need be."""
        result = await environment.shell(script, timeout_s=0.3)
        assert result.timed_out or "syntax error" in result.stdout
        assert result.duration_s < 5
        following = await environment.shell("echo next; (exit 4)")
        assert (following.stdout, following.exit_code) == ("next\n", 4)

    @_real
    async def test_time_outs_never_shift_answers(self, environment: Environment) -> None:
        """Each script is answered by its own result, time-out after time-out."""
        for number in range(12):
            await environment.shell(f"sleep {0.05 * (number % 3)}; echo stale", timeout_s=0.05)
            result = await environment.shell(f"echo {number}; (exit {number})")
            assert (result.stdout.splitlines()[-1], result.exit_code) == (str(number), number)

    @_real
    async def test_a_shell_and_commands_run_side_by_side(self, environment: Environment) -> None:
        """A long script holds no command up."""
        script = asyncio.ensure_future(environment.shell("sleep 1; echo script"))
        await asyncio.sleep(0.2)
        assert (await environment.exec(["echo", "command"])).stdout == "command\n"
        assert not script.done()
        assert (await script).stdout == "script\n"
