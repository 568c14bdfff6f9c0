"""The sandbox as an `Environment`: life cycle, commands, files, cancellation, death."""

import asyncio
import dataclasses
import os
import signal

import pytest

from swe_plugin.environments.sandbox import SandboxEnvironment, close_zygote
from swe_plugin.environments.sandbox.owner import current_zygote
from swe_plugin.errors import EnvironmentStartError, EnvironmentUnavailable
from swe_plugin.types import Image

from .conftest import host_processes, spec

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_files_are_the_agents_own_and_go_through_its_limits(sandbox):
    content = bytes(range(256)) * 5000
    await sandbox.write_file("/testbed/new dir/ü.bin", content, mode=0o755)
    assert await sandbox.read_file("/testbed/new dir/ü.bin") == content
    assert (await sandbox.shell("stat -c '%U %a' '/testbed/new dir/ü.bin'")).stdout == "agent 755\n"
    assert await sandbox.read_file("calc.py") == b"def add(a, b):\n    return a - b\n"
    await sandbox.write_file("empty", b"")
    assert await sandbox.read_file("/testbed/empty") == b""


@pytest.mark.parametrize("path", ["/proc/sys/kernel/core_pattern", "/testbed", "/etc/passwd/x", "/testbed/to-root"])
async def test_writing_where_the_agent_may_not(sandbox, path):
    await sandbox.shell("ln -sf /proc/version /testbed/to-root")
    with pytest.raises(OSError):  # noqa: PT011 - the errno differs by kernel and mode
        await sandbox.write_file(path, b"x")


async def test_what_its_processes_used_is_known_dead_ones_included():
    code = "import time; x = bytearray(64 << 20)\nwhile time.process_time() < 0.3: pass"
    async with SandboxEnvironment(spec(memory_mib=512)) as busy:
        before = await busy.usage()
        assert (await busy.exec(["python3", "-c", code])).exit_code == 0
        assert (await busy.shell(f"python3 -c '{code}'")).exit_code == 0
        after = await busy.usage()
    assert before.cpu_s < 0.5
    assert 0.55 <= after.cpu_s - before.cpu_s < 2.0  # the kernel counts ticks of 10 ms
    assert 64 <= after.memory_mib < 512


async def test_a_full_disk_is_an_error_of_the_write():
    async with SandboxEnvironment(spec(disk_mib=4)) as small:
        with pytest.raises(OSError, match=r"[Nn]o space"):
            await small.write_file("/tmp/big", b"x" * (5 << 20))
        assert await small.is_alive()


async def test_git_works_and_shows_only_the_agents_changes():
    async with SandboxEnvironment(spec()) as fresh:
        assert (await fresh.exec(["git", "status", "--porcelain"])).stdout == ""
        await fresh.shell("sed -i s/-/+/ calc.py; echo new > new.txt; git add -A")
        diff = (await fresh.exec(["git", "diff", "--cached", "--no-color"])).stdout
        assert "+    return a + b" in diff
        assert "+++ b/new.txt" in diff
        assert (await fresh.exec(["git", "commit", "-qm", "mine"])).exit_code == 0
        assert (await fresh.exec(["git", "log", "--format=%s"])).stdout == "mine\nbase\n"
    async with SandboxEnvironment(spec()) as grading:
        await grading.write_file("/tmp/p.diff", diff.encode())
        assert (await grading.exec(["git", "apply", "/tmp/p.diff"])).exit_code == 0
        code = "import sys; sys.path.insert(0, '.'); import calc; print(calc.add(2, 3))"
        assert (await grading.exec(["python", "-I", "-S", "-c", code])).stdout == "5\n"


async def test_start_reports_what_is_wrong_with_the_image(tmp_path):
    for base, message in {
        f"oci:{tmp_path}/nope": "nope does not exist",
        f"rootfs:{tmp_path}/nope": "nope does not exist",
        "nonsense": "unknown kind",
    }.items():
        with pytest.raises(EnvironmentStartError, match=message):
            await SandboxEnvironment(dataclasses.replace(spec(), image=Image(base))).start()
    (tmp_path / "empty/testbed").mkdir(parents=True)
    with pytest.raises(EnvironmentStartError, match="the image has no bash"):
        await SandboxEnvironment(dataclasses.replace(spec(), image=Image(f"rootfs:{tmp_path}/empty"))).start()
    with pytest.raises(EnvironmentStartError, match="no directory /elsewhere"):
        await SandboxEnvironment(dataclasses.replace(spec(), image=Image(workdir="/elsewhere"))).start()


async def test_limits_that_contradict_and_unknown_modes_are_refused():
    with pytest.raises(EnvironmentStartError, match="three quarters"):
        await SandboxEnvironment(spec(memory_mib=100, disk_mib=100)).start()
    with pytest.raises(
        EnvironmentStartError, match=r"options\.colour=.*unknown option of the sandbox; known: mode, open_files"
    ):
        await SandboxEnvironment(dataclasses.replace(spec(), options={"colour": "blue"})).start()
    with pytest.raises(EnvironmentStartError, match="must be one of auto, root, rootmap, user"):
        await SandboxEnvironment(spec(mode="magic")).start()


async def test_a_killed_supervisor_is_noticed_at_once():
    async with SandboxEnvironment(spec()) as environment:
        pending = asyncio.ensure_future(environment.shell("sleep 900"))
        await asyncio.sleep(0.05)
        await current_zygote().kill(environment._number)
        with pytest.raises(EnvironmentUnavailable):
            await asyncio.wait_for(pending, 5)
        assert not await environment.is_alive()
        with pytest.raises(EnvironmentUnavailable):
            await environment.exec(["true"])


async def test_a_killed_zygote_takes_its_sandboxes_along_and_is_replaced():
    environment = SandboxEnvironment(spec())
    await environment.start()
    zygote = current_zygote()
    os.kill(zygote._process.pid, signal.SIGKILL)
    with pytest.raises(EnvironmentUnavailable):
        await environment.shell("sleep 900", timeout_s=5)
    await environment.stop()
    async with SandboxEnvironment(spec()) as following:
        assert (await following.shell("echo again")).stdout == "again\n"
    assert host_processes(zygote.lease.id) == []
    assert not zygote.lease.path.exists()


async def test_a_killed_zygote_is_cleaned_up_after_wherever_leases_are_kept_by_then(monkeypatch, tmp_path):
    environment = SandboxEnvironment(spec())
    await environment.start()
    zygote = current_zygote()
    os.kill(zygote._process.pid, signal.SIGKILL)
    await environment.stop()
    monkeypatch.setenv("SWE_PLUGIN_HOME", str(tmp_path))
    close_zygote()
    assert host_processes(zygote.lease.id) == []
    assert not zygote.lease.path.exists()


async def test_a_measurement_that_takes_too_long_costs_nothing(monkeypatch):
    monkeypatch.setattr("swe_plugin.environments.supervised._USAGE_TIMEOUT_S", 0.0)
    async with SandboxEnvironment(spec()) as slow:
        assert await slow.usage() is None
        assert (await slow.shell("echo here")).stdout == "here\n"
