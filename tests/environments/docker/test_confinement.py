"""What an agent tries against its container."""

import pytest

from swe_plugin.environments import AGENT_ENV, EnvironmentSpec
from swe_plugin.environments.docker import DockerEnvironment
from swe_plugin.environments.docker.bundle import MOUNT_POINT
from swe_plugin.types import Image

pytestmark = pytest.mark.docker

SUPERVISOR = f"/proc/1/mem {MOUNT_POINT}/code/main.py {MOUNT_POINT}/new"


@pytest.fixture(params=["agent", "root"])
async def environment(request, dockerd):
    options = {"user": "0:0"} if request.param == "root" else {}
    spec = EnvironmentSpec(Image(files={"a": ""}), env=AGENT_ENV, label="attack", options=options)
    async with DockerEnvironment(spec) as environment:
        yield environment


async def bash(environment, script):
    return await environment.exec(["bash", "-c", script], timeout_s=20)


async def test_the_supervisor_cannot_be_ended_stopped_or_changed(environment):
    await bash(environment, "for s in TERM INT HUP KILL STOP SEGV USR1 CHLD; do kill -$s 1; done 2>/dev/null")
    for path in SUPERVISOR.split():
        assert (await bash(environment, f"echo x > {path}")).exit_code != 0, path
    assert (await bash(environment, "cat /proc/1/environ /proc/1/mem 2>/dev/null | head -c 1 | wc -c")).stdout == "0\n"
    assert (await environment.shell("echo alive")).stdout == "alive\n"


async def test_pipes_to_the_owner_are_out_of_reach(environment):
    script = "for fd in /proc/1/fd/*; do echo forged > $fd && echo $fd; done 2>/dev/null"
    assert (await bash(environment, script)).stdout == ""
    assert (await environment.exec(["echo", "honest"])).stdout == "honest\n"


@pytest.mark.parametrize(
    "code",
    [
        "import ctypes; assert ctypes.CDLL(None, use_errno=True).unshare(0x10000000) == 0",
        "import ctypes; assert ctypes.CDLL(None).mount(b'none', b'/tmp', b'tmpfs', 0, None) == 0",
        "import ctypes; assert ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0",
        "import os; os.mknod('/tmp/sda', 0o60600, os.makedev(8, 0))",
        "open('/proc/sys/kernel/core_pattern', 'w').write('x')",
        "import resource; resource.prlimit(1, resource.RLIMIT_NOFILE, (1, 1))",
        "import os; os.chroot('/tmp')",
        "import socket; socket.socket(40, socket.SOCK_STREAM)",
    ],
)
async def test_ways_out_are_refused(environment, code):
    assert (await environment.exec(["python3", "-I", "-S", "-c", code])).exit_code != 0


async def test_the_daemon_s_socket_is_not_there(environment, dockerd):
    listed = await bash(environment, f"ls /var/run/docker.sock {dockerd.host.removeprefix('unix://')} 2>/dev/null")
    assert listed.stdout == ""
