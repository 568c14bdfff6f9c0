"""The sandbox as an `Environment`: life cycle, commands, files, cancellation, death."""

import asyncio
import dataclasses
import os
import signal
import stat
import time

import pytest

from swe_plugin.environments.sandbox import SandboxEnvironment
from swe_plugin.environments.sandbox.owner import current_zygote
from swe_plugin.errors import EnvironmentStartError, EnvironmentUnavailable
from swe_plugin.types import Image

from .conftest import host_processes, spec

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_exec_keeps_streams_apart_and_reports_the_exit_code(sandbox):
    result = await sandbox.exec(["bash", "-c", "echo out; echo err >&2; exit 5"])
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 5)
    assert (await sandbox.exec(["bash", "-c", "kill -9 $$"])).exit_code == 137


async def test_exec_passes_arguments_environment_directory_and_stdin_exactly(sandbox):
    code = "import os, sys; print(sys.argv[1:], os.environ['X'], os.getcwd(), sys.stdin.read())"
    argv = ["python3", "-c", code, "a b", "$HOME", "it's", "", "é\udcff"]
    result = await sandbox.exec(argv, cwd="/tmp", env={"X": "y"}, stdin=b"fed")
    assert result.stdout == "['a b', '$HOME', \"it's\", '', 'é\\udcff'] y /tmp fed\n"


async def test_exec_feeds_more_stdin_than_a_pipe_holds(sandbox):
    result = await sandbox.exec(["wc", "-c"], stdin=b"x" * 3_000_000)
    assert result.stdout == "3000000\n"
    assert (await sandbox.exec(["true"], stdin=b"x" * 3_000_000)).exit_code == 0


@pytest.mark.parametrize(
    ("argv", "cwd", "exit_code"),
    [(["no-such-program"], None, 127), (["/etc/passwd"], None, 126), (["true"], "/nowhere", 126)],
)
async def test_a_command_that_cannot_start_is_a_result(sandbox, argv, cwd, exit_code):
    result = await sandbox.exec(argv, cwd=cwd)
    assert result.exit_code == exit_code
    assert result.stderr


async def test_exec_timeout_ends_the_tree_and_keeps_partial_output(sandbox):
    script = "echo before; sleep 700 & setsid sleep 701 & (sleep 702 & ); exec sleep 703"
    result = await sandbox.exec(["bash", "-c", script], timeout_s=0.3)
    assert result.timed_out
    assert (result.stdout, result.exit_code) == ("before\n", -1)
    assert result.duration_s < 2
    assert "sleep 70" not in (await sandbox.exec(["ps", "-eo", "args"])).stdout


async def test_commands_run_side_by_side(sandbox):
    began = time.monotonic()
    results = await asyncio.gather(*(sandbox.exec(["bash", "-c", f"sleep 0.4; echo {i}"]) for i in range(8)))
    assert [result.stdout for result in results] == [f"{i}\n" for i in range(8)]
    assert time.monotonic() - began < 2.5


@pytest.mark.parametrize("way", ["exec", "shell"])
@pytest.mark.parametrize("after_s", [0.0, 0.001, 0.15])
async def test_cancelling_a_command_kills_it(sandbox, way, after_s):
    script = "sleep 800 & setsid sleep 801 & sleep 802"
    call = sandbox.shell(script) if way == "shell" else sandbox.exec(["bash", "-c", script])
    task = asyncio.ensure_future(call)
    await asyncio.sleep(after_s)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "sleep 80" not in (await sandbox.exec(["ps", "-eo", "args"])).stdout
    assert (await sandbox.shell("echo usable")).stdout == "usable\n"


async def test_files_are_the_agents_own_and_go_through_its_limits(sandbox):
    content = bytes(range(256)) * 5000
    await sandbox.write_file("/testbed/new dir/ü.bin", content, mode=0o755)
    assert await sandbox.read_file("/testbed/new dir/ü.bin") == content
    assert (await sandbox.shell("stat -c '%U %a' '/testbed/new dir/ü.bin'")).stdout == "agent 755\n"
    assert await sandbox.read_file("calc.py") == b"def add(a, b):\n    return a - b\n"
    await sandbox.write_file("empty", b"")
    assert await sandbox.read_file("/testbed/empty") == b""


@pytest.mark.parametrize(
    ("path", "error"),
    [("/nope", FileNotFoundError), ("/testbed", IsADirectoryError), ("/dev/zero", OSError), ("/testbed/pipe", OSError)],
)
async def test_reading_what_is_not_a_file(sandbox, path, error):
    await sandbox.shell("mkfifo /testbed/pipe 2>/dev/null")
    with pytest.raises(error):
        await sandbox.read_file(path)


@pytest.mark.parametrize("path", ["/proc/sys/kernel/core_pattern", "/testbed", "/etc/passwd/x", "/testbed/to-root"])
async def test_writing_where_the_agent_may_not(sandbox, path):
    await sandbox.shell("ln -sf /proc/version /testbed/to-root")
    with pytest.raises(OSError):  # noqa: PT011 - the errno differs by kernel and mode
        await sandbox.write_file(path, b"x")


async def test_a_full_disk_is_an_error_of_the_write():
    async with SandboxEnvironment(spec(disk_mib=4)) as small:
        with pytest.raises(OSError, match=r"[Nn]o space"):
            await small.write_file("/tmp/big", b"x" * (5 << 20))
        assert await small.is_alive()


async def test_trees_keep_modes_links_and_odd_names(sandbox, tmp_path):
    source = tmp_path / "in"
    (source / "sub dir").mkdir(parents=True)
    (source / "sub dir" / "ünïcode").write_bytes(b"\0\xff")
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o755)
    (source / "link").symlink_to("sub dir/ünïcode")
    await sandbox.upload(source, "/testbed/tree")
    listed = await sandbox.shell("cd /testbed/tree && find . | sort && readlink link && ./run.sh; cd /testbed")
    assert listed.stdout == ".\n./link\n./run.sh\n./sub dir\n./sub dir/ünïcode\nsub dir/ünïcode\n"
    assert listed.exit_code == 0
    await sandbox.download("/testbed/tree", tmp_path / "out")
    assert (tmp_path / "out/sub dir/ünïcode").read_bytes() == b"\0\xff"
    assert (tmp_path / "out/link").readlink().as_posix() == "sub dir/ünïcode"
    assert (tmp_path / "out/run.sh").stat().st_mode & stat.S_IXUSR
    await sandbox.upload(source / "run.sh", "/tmp/one.sh")
    await sandbox.download("/tmp/one.sh", tmp_path / "one.sh")
    assert (tmp_path / "one.sh").read_text() == "#!/bin/sh\n"


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside", "../outside"])
async def test_download_refuses_links_that_lead_out(sandbox, tmp_path, target):
    await sandbox.shell(f"rm -rf /tmp/evil; mkdir /tmp/evil; ln -s {target} /tmp/evil/link")
    with pytest.raises(PermissionError, match="refused"):
        await sandbox.download("/tmp/evil", tmp_path / "got")
    assert not (tmp_path / "outside").exists()


async def test_download_of_nothing(sandbox, tmp_path):
    with pytest.raises(FileNotFoundError):
        await sandbox.download("/nope", tmp_path / "got")


async def test_upload_of_nothing(sandbox, tmp_path):
    with pytest.raises(FileNotFoundError):
        await sandbox.upload(tmp_path / "nope", "/tmp/x")
    assert await sandbox.is_alive()


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
        "docker:python:3.11": "does not unpack docker images",
        f"rootfs:{tmp_path}/nope": "not a directory",
        "nonsense": "unknown kind",
    }.items():
        with pytest.raises(EnvironmentStartError, match=message):
            await SandboxEnvironment(dataclasses.replace(spec(), image=Image(base))).start()
    (tmp_path / "empty/testbed").mkdir(parents=True)
    with pytest.raises(EnvironmentStartError, match="bash does not start"):
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
    with pytest.raises(EnvironmentStartError, match="must be one of auto, root, user"):
        await SandboxEnvironment(spec(mode="magic")).start()


async def test_an_environment_is_started_once_and_stopped_any_number_of_times():
    environment = SandboxEnvironment(spec())
    assert not await environment.is_alive()
    await environment.stop()
    await environment.start()
    with pytest.raises(EnvironmentStartError, match="once"):
        await environment.start()
    assert await environment.is_alive()
    await environment.stop()
    await environment.stop()
    assert not await environment.is_alive()
    with pytest.raises(EnvironmentUnavailable):
        await environment.shell("true")


@pytest.mark.parametrize("after_s", [0.0, 0.002, 0.008, 0.02])
async def test_cancelling_a_start_leaves_nothing(after_s):
    environment = SandboxEnvironment(spec())
    task = asyncio.ensure_future(environment.start())
    await asyncio.sleep(after_s)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await environment.stop()
    assert not await environment.is_alive()


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


async def test_many_at_once_without_blocking_the_loop():
    worst = 0.0

    async def watch():
        nonlocal worst
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.005)
            worst = max(worst, time.perf_counter() - began)

    async def rollout(number):
        async with SandboxEnvironment(spec()) as environment:
            return (await environment.shell(f"echo {number}")).stdout

    watcher = asyncio.ensure_future(watch())
    outputs = await asyncio.gather(*(rollout(number) for number in range(24)))
    watcher.cancel()
    assert outputs == [f"{number}\n" for number in range(24)]
    assert worst < 0.5
