"""The persistent shell: whatever a script does, the next command gets its own output and its own exit code."""

import pytest

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    ("script", "stdout", "exit_code"),
    [
        ("echo hi", "hi\n", 0),
        ("false", "", 1),
        ("", "", 0),
        ("# only a comment", "", 0),
        ("(exit 7)", "", 7),
        ("printf 'no newline'", "no newline", 0),
        ('echo "it\'s" \'a "quote"\' \\$x', 'it\'s a "quote" $x\n', 0),
        ("cat <<EOF\na $((1+1))\nEOF", "a 2\n", 0),
        ("cat <<'A'; cat <<B\n$x\nA\ny\nB\n", "$x\ny\n", 0),
        ("for i in 1 2; do\n  echo $i\ndone", "1\n2\n", 0),
        ("echo out; echo err >&2", "out\nerr\n", 0),
        ("read x; echo got=$x", "got=\n", 0),
        ("cat", "", 0),
        ("python3 -c 'import sys; print(repr(sys.stdin.read()))'", "''\n", 0),
        ("printf 'a\\0b\\xff\\n'", "a\0b�\n", 0),
        ("echo '!!' !x", "!! !x\n", 0),
        ("echo to-stdout > /dev/stdout; echo to-stderr > /dev/stderr", "to-stdout\nto-stderr\n", 0),
        ("kill -TERM $BASHPID; echo on", "on\n", 0),
    ],
)
async def test_output_and_exit_code(sandbox, script, stdout, exit_code):
    result = await sandbox.shell(script, timeout_s=5)
    assert (result.stdout, result.exit_code) == (stdout, exit_code)
    assert not result.timed_out
    assert not result.truncated


async def test_working_directory_variables_and_functions_survive(sandbox):
    await sandbox.shell("cd pkg; export A=1; f() { echo f$1; }; set -u")
    assert (await sandbox.shell("pwd; echo $A; f 2")).stdout == "/testbed/pkg\n1\nf2\n"
    assert "unbound variable" in (await sandbox.shell("echo $nope")).stdout
    assert (await sandbox.shell("set +u; cd /testbed; echo $A")).stdout == "1\n"


@pytest.mark.parametrize(
    ("script", "exit_code"),
    [("exit 3", 3), ("exec false", 1), ("set -e; false", 1), ("kill -9 $$", 137), ("exec sh -c 'exit 9'", 9)],
)
async def test_ending_the_shell_costs_its_variables_and_nothing_else(sandbox, script, exit_code):
    await sandbox.shell("cd /testbed/pkg; LOST=1")
    assert (await sandbox.shell(script, timeout_s=5)).exit_code == exit_code
    result = await sandbox.shell('echo "${LOST-unset} $PWD"')
    assert (result.stdout, result.exit_code) == ("unset /testbed/pkg\n", 0)
    await sandbox.shell("cd /testbed")


@pytest.mark.parametrize(
    "script", ["cat <<EOF\nnever closed", "echo 'never closed", "if true; then", "echo $(", "}", "case x in"]
)
async def test_broken_syntax_fails_fast_and_leaves_the_shell_usable(sandbox, script):
    result = await sandbox.shell(script, timeout_s=5)
    assert not result.timed_out
    assert (await sandbox.shell("echo usable")).stdout == "usable\n"


async def test_background_jobs_do_not_hold_the_answer_back(sandbox):
    result = await sandbox.shell("sleep 600 & echo started", timeout_s=5)
    assert result.stdout.endswith("started\n")
    assert result.duration_s < 2
    assert (await sandbox.shell("kill %1; jobs -p | wc -l; wait")).exit_code == 0


async def test_huge_output_is_bounded_and_cut_in_the_middle(sandbox):
    result = await sandbox.shell("echo first; yes | head -c 50M; echo last", timeout_s=20)
    assert result.exit_code == 0
    assert result.truncated
    assert result.stdout.startswith("first\ny\n")
    assert result.stdout.endswith("y\nlast\n")
    assert "bytes dropped ...]" in result.stdout
    assert len(result.stdout) <= sandbox.spec.limits.output_bytes + 100


async def test_long_script(sandbox):
    words = " ".join(str(i) for i in range(20_000))
    assert (await sandbox.shell(f"echo {words}")).stdout == f"{words}\n"


async def test_timeout_keeps_partial_output_and_ends_the_whole_tree(sandbox):
    result = await sandbox.shell("echo before; sleep 600 & setsid sleep 601 & (sleep 602 &); sleep 603", timeout_s=0.3)
    assert result.timed_out
    assert result.exit_code == -1
    assert "before\n" in result.stdout
    assert result.duration_s < 2
    assert "sleep" not in (await sandbox.shell("ps -eo args")).stdout


async def test_timeout_spares_background_jobs_of_earlier_commands_and_the_variables(sandbox):
    await sandbox.shell("V=kept; sleep 600 &")
    assert (await sandbox.shell("sleep 601", timeout_s=0.2)).timed_out
    result = await sandbox.shell("echo $V; ps -eo args | grep -c '[s]leep 600'; kill %1")
    assert result.stdout.startswith("kept\n1\n")


@pytest.mark.parametrize(
    "script",
    [
        "while :; do :; done",
        "trap '' INT; while :; do :; done",
        "trap '' INT TERM HUP; sleep 600",
        "while :; do sleep 1; done",
        "python3 -c 'import signal\nfor s in (1, 2, 3, 15): signal.signal(s, signal.SIG_IGN)\nwhile True: pass'",
        "yes",
        "builtin printf() { :; }; sleep 600",
    ],
)
async def test_stubborn_script_is_ended_and_the_next_answer_is_right(sandbox, script):
    result = await sandbox.shell(script, timeout_s=0.2)
    assert result.timed_out or "syntax error" in result.stdout
    assert result.duration_s < 3
    following = await sandbox.shell("echo next; (exit 4)")
    assert (following.stdout, following.exit_code) == ("next\n", 4)


async def test_a_forged_report_deceives_at_most_its_own_session(sandbox):
    forge = "for fd in /proc/$$/fd/*; do printf '%s 0 /\\0' 1 2 3 99999999 >$fd; done 2>/dev/null; echo 5 0 /; false"
    assert not (await sandbox.shell(forge, timeout_s=5)).timed_out
    await sandbox.shell("exit")
    assert (await sandbox.shell("cd /testbed; echo honest; (exit 6)")).exit_code == 6
    assert (await sandbox.exec(["false"])).exit_code == 1


async def test_garbage_on_the_report_descriptor_is_bounded(sandbox):
    await sandbox.shell("head -c 3000000 /dev/zero | tr '\\0' x > /proc/$$/fd/201", timeout_s=5)
    assert (await sandbox.shell("echo fine")).stdout == "fine\n"
