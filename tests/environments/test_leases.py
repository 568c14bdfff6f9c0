"""Nothing outlives its owner: leases, the reaper, and kill -9 at random instants."""

import contextlib
import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from swe_plugin.environments.leases import ResourceLease, lease_directory, reap
from swe_plugin.environments.sandbox import close_zygote
from swe_plugin.environments.sandbox.hierarchy import find_candidates

from .conftest import host_processes, skip_unless
from .kills import Place, play

pytestmark = pytest.mark.slow

OWNER = """
import asyncio, itertools, sys
from swe_plugin.environments import AGENT_ENV, EnvironmentSpec
from swe_plugin.environments.sandbox import SandboxEnvironment
from swe_plugin.types import Image

numbers = itertools.count()

async def rollout():
    options = {"mode": sys.argv[1]}
    while True:
        image = Image(files={"a.py": f"# {next(numbers)}\\n" * 100})
        async with SandboxEnvironment(EnvironmentSpec(image, env=AGENT_ENV, options=options)) as environment:
            await environment.shell("sleep 300 & setsid sleep 301 &")
            await environment.write_file("/tmp/x", b"x" * 100000)
            await environment.exec(["git", "status"])

async def main():
    await asyncio.gather(*(rollout() for _ in range(3)))

print("ready", flush=True)
asyncio.run(main())
"""


def lease_ids():
    return [path.stem for path in lease_directory().glob("*.json")]


def cgroups(identity):
    return [parent / identity for parent in parents() if (parent / identity).exists()]


def parents():
    """Where zygotes of this machine may make cgroups, as far as this process may write there."""
    candidates = {path for paths in find_candidates().parents.values() for path in paths}
    return {path for path in candidates if os.access(path, os.W_OK)}


@pytest.fixture(params=["auto", "rootmap"])
def mode(request):
    """The usual one, and the one with processes and mounts of other users."""
    if request.param != "auto":
        skip_unless(request.param)
        close_zygote()  # this process's, which has a lease
    return request.param


def test_kill_9_of_the_owner_at_random_instants_leaves_nothing(own_home, mode, tmp_path_factory):
    place = Place("sandbox", tmp_path_factory.mktemp("scratch"), mode)
    outcome = play(place, 8, seed=random.randrange(1 << 32))
    assert outcome.held, "no owner had anything"
    assert outcome.left == []


def test_kill_9_of_owner_and_zygote_together_is_cleaned_by_the_reaper(own_home, mode):
    command = [sys.executable, "-c", OWNER, mode]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as owner:
        deadline = time.monotonic() + 20
        while (
            not (zygotes := [pid for name in lease_ids() for pid in host_processes(name)])
            and time.monotonic() < deadline
        ):
            time.sleep(0.02)
        time.sleep(0.1)
        (identity,) = {name for name in lease_ids() if host_processes(name)} or {""}
        owner.kill()
        for pid in zygotes:
            with contextlib.suppress(ProcessLookupError):  # it may have seen its owner's end first
                os.kill(pid, signal.SIGKILL)
    assert zygotes
    while (
        identity in lease_ids() and time.monotonic() < deadline
    ):  # a child between fork and exec holds it a moment longer
        assert reap().problems == []
    assert host_processes(identity) == []
    assert cgroups(identity) == []


def test_a_lease_that_is_held_is_left_alone(own_home):
    (own_home / "held").mkdir()
    lease = ResourceLease("test", directories=[own_home])
    lease.directories[0].mkdir()
    assert reap().leases == []
    assert lease.directories[0].exists()
    lease.directories[0].rmdir()
    lease.release()
    lease.release()
    assert lease_ids() == []


def test_an_abandoned_lease_is_cleaned_completely(own_home):
    lease = ResourceLease("test", directories=[own_home], cgroups=parents())
    (lease.directories[0] / "deep").mkdir(parents=True)
    for group in lease.cgroups:
        (group / "1").mkdir(parents=True)
    code = "import time; print('up', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, lease.id], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"up\n"
        lease.abandon()
        report = reap()
        assert process.wait(5) == -signal.SIGKILL
    assert (report.leases, report.processes, report.directories) == ([lease.id], 1, 1)
    assert report.cgroups == 2 * len(lease.cgroups)
    assert not lease.directories[0].exists()
    assert cgroups(lease.id) == []
    assert reap().leases == []


def test_a_process_that_still_works_in_a_leased_directory_is_ended_first(own_home):
    lease = ResourceLease("test", directories=[own_home])
    lease.directories[0].mkdir()
    code = "import time; print('up', flush=True)\nwhile True: open('f', 'w').close(); time.sleep(0.001)"
    directory = lease.directories[0]
    with subprocess.Popen([sys.executable, "-c", code], cwd=directory, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"up\n"
        lease.abandon()
        report = reap()
        assert process.wait(5) == -signal.SIGKILL
    assert (report.problems, report.processes) == ([], 1)
    assert not directory.exists()


def test_a_forked_child_does_not_keep_its_parents_lease(own_home):
    lease = ResourceLease("test")
    read_end, write_end = os.pipe()
    forked, has_forked = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(has_forked, b"x")
        os.close(write_end)
        os.read(read_end, 1)
        os._exit(0)
    try:
        os.read(forked, 1)
        lease.abandon()
        assert reap().leases == [lease.id]
    finally:
        os.close(write_end)
        os.waitpid(child, 0)
        for fd in (read_end, forked, has_forked):
            os.close(fd)


def test_a_lease_file_that_was_never_written_is_removed(own_home):
    for name in ("a.draft", "b.json"):
        (lease_directory() / name).touch()
    (lease_directory() / "c.json").write_text(json.dumps(["not a record"]))
    assert sorted(reap().leases) == ["a", "b", "c"]
    assert list(lease_directory().iterdir()) == []


def test_a_reaper_that_comes_before_a_new_lease_is_locked_costs_nothing(own_home, monkeypatch):
    lock, early = fcntl.flock, []

    def lock_late(fd, how):
        if how == fcntl.LOCK_EX and not early:
            monkeypatch.setattr(fcntl, "flock", lock)
            early.extend(reap().leases)
        lock(fd, how)

    monkeypatch.setattr(fcntl, "flock", lock_late)
    lease = ResourceLease("test")
    assert early == [lease.id]
    assert reap().leases == []
    assert lease_ids() == [lease.id]
    lease.release()


def test_what_cannot_be_removed_is_reported_and_kept(own_home, monkeypatch):
    lease = ResourceLease("test", directories=[own_home])
    lease.directories[0].mkdir()
    lease.abandon()

    def refuse(path):
        raise PermissionError(13, "refused", path)

    monkeypatch.setattr("swe_plugin.environments.removal.shutil.rmtree", refuse)
    report = reap()
    assert "refused" in report.problems[0]
    assert lease_ids() == [lease.id]
    monkeypatch.undo()
    monkeypatch.setenv("SWE_PLUGIN_HOME", str(own_home))
    assert reap().leases == [lease.id]
    assert not Path(lease.directories[0]).exists()


def test_what_has_a_file_open_in_a_leased_directory_ends_with_it(tmp_path):
    lease = ResourceLease("test", directories=[tmp_path])
    lease.directories[0].mkdir()
    log = lease.directories[0] / "log"
    code = f"import time; file = open({str(log)!r}, 'w'); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd="/") as process:
        process.stdout.readline()
        lease.abandon()
        report = reap()
        assert process.wait(5) == -signal.SIGKILL
    assert (report.processes, report.directories) == (1, 1)
    assert not lease.directories[0].exists()


def test_containers_on_a_daemon_that_is_gone_are_forgotten_after_a_week(tmp_path, caplog):
    lease = ResourceLease("docker", daemons=[f"unix://{tmp_path}/docker.sock"])
    lease.abandon()
    assert f"containers of {lease.id} on unix://{tmp_path}/docker.sock" in str(reap())
    assert lease.path.exists()
    week_ago = time.time() - 8 * 86400
    os.utime(lease.path, (week_ago, week_ago))
    assert reap().problems == []
    assert not lease.path.exists()
    assert "no daemon has answered for 8 days" in caplog.text
