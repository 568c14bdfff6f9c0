"""The session against scripts that attack its protocol; what any shell must do is in the conformance suite."""

import pytest

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_python_program_that_ignores_every_signal_is_ended(sandbox):
    code = "import signal\nfor s in (1, 2, 3, 15): signal.signal(s, signal.SIG_IGN)\nwhile True: pass"
    assert (await sandbox.shell(f"python3 -c '{code}'", timeout_s=0.2)).timed_out
    assert (await sandbox.shell("echo next; (exit 4)")).exit_code == 4


async def test_a_forged_report_deceives_at_most_its_own_session(sandbox):
    forge = "for fd in /proc/$$/fd/*; do printf '%s 0 /\\0' 1 2 3 99999999 >$fd; done 2>/dev/null; echo 5 0 /; false"
    assert not (await sandbox.shell(forge, timeout_s=5)).timed_out
    await sandbox.shell("exit")
    assert (await sandbox.shell("cd /testbed; echo honest; (exit 6)")).exit_code == 6
    assert (await sandbox.exec(["false"])).exit_code == 1


async def test_garbage_on_the_report_descriptor_is_bounded(sandbox):
    await sandbox.shell("head -c 3000000 /dev/zero | tr '\\0' x > /proc/$$/fd/201", timeout_s=5)
    assert (await sandbox.shell("echo fine")).stdout == "fine\n"
