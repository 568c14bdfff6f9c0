"""A Docker daemon of the tests' own: no network, no registry, its files in a temporary directory."""

import asyncio
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import docker
import pytest
from docker.errors import DockerException

from swe_plugin.environments import EnvironmentLimits, EnvironmentSpec
from swe_plugin.environments.conformance.checks import FILES
from swe_plugin.environments.docker import DockerEnvironment, close_daemons
from swe_plugin.types import Image

_UP_WITHIN_S = 90
_OPTIONS = (
    "--iptables=false",
    "--ip6tables=false",
    "--ip-forward=false",
    "--ip-masq=false",
    "--bridge=none",
    "--exec-opt=native.cgroupdriver=cgroupfs",
)


def eventually(condition, within_s=20.0):
    """Whether a condition is met before long."""
    deadline = time.monotonic() + within_s
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return met


class Dockerd:
    """The daemon; `crash` and `start` it at will."""

    def __init__(self, root: Path):
        self.root = root
        self.host = f"unix://{root}/docker.sock"
        self.process = None

    def start(self):
        pidfile = self.root / "pid"
        pidfile.unlink(missing_ok=True)
        # After a crash its containerd is dead too; where init is slow to reap, dockerd would take the zombie for alive.
        (self.root / "exec/containerd/containerd.pid").unlink(missing_ok=True)
        places = [f"--data-root={self.root}/data", f"--exec-root={self.root}/exec", f"--pidfile={pidfile}"]
        with (self.root / "log").open("ab") as log:
            command = ["dockerd", *places, f"--host={self.host}", *_OPTIONS]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + _UP_WITHIN_S
        while not self.answers():
            assert self.process.poll() is None, (self.root / "log").read_text()[-3000:]
            assert time.monotonic() < deadline, (self.root / "log").read_text()[-3000:]
            time.sleep(0.1)

    def answers(self):
        try:
            client = docker.DockerClient(base_url=self.host, timeout=5)
            client.ping()
            client.close()
        except (DockerException, OSError):
            return False
        return True

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(60)

    def crash(self):
        self.end(signal.SIGKILL)

    def containers(self):
        """Names of all containers but the one that holds the supervisor."""
        client = docker.DockerClient(base_url=self.host, timeout=30)
        try:
            names = [container.name for container in client.containers.list(all=True, ignore_removed=True)]
        finally:
            client.close()
        return [name for name in names if not name.startswith("swe-plugin-guest-")]


def unmount(root):
    """What a crashed daemon had mounted stays mounted."""
    places = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for place in sorted((place for place in places if Path(place).is_relative_to(root)), reverse=True):
        subprocess.run(["umount", "-l", place], check=True)


async def _warm():
    """The first start builds images; that is not the time that tests measure."""
    async with DockerEnvironment(EnvironmentSpec(Image(files=FILES), EnvironmentLimits(start_timeout_s=240))):
        pass


@pytest.fixture(scope="session")
def dockerd(swe_home, tmp_path_factory):
    """A running daemon, which DOCKER_HOST names."""
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        pytest.skip("starting a Docker daemon needs root and dockerd (Debian: apt-get install docker.io)")
    daemon = Dockerd(tmp_path_factory.mktemp("dockerd"))
    before = os.environ.get("DOCKER_HOST")
    os.environ["DOCKER_HOST"] = daemon.host
    daemon.start()
    try:
        asyncio.run(_warm())
        yield daemon
        close_daemons()
        assert eventually(lambda: not daemon.containers())
    finally:
        daemon.end()
        if before is None:
            del os.environ["DOCKER_HOST"]
        else:
            os.environ["DOCKER_HOST"] = before
        unmount(daemon.root)
        shutil.rmtree(daemon.root)


@pytest.fixture
def client(dockerd):
    """The SDK's client of the daemon."""
    client = docker.DockerClient(base_url=dockerd.host)
    yield client
    client.close()


@pytest.fixture
async def tagged(client):
    """The host image under a name of its own, with variables, without a user."""
    async with DockerEnvironment(EnvironmentSpec(Image(workdir="/tmp"))):
        pass
    bases = [image for image in client.images.list() if any(tag.startswith("swe-plugin-base:") for tag in image.tags)]
    base = max(bases, key=lambda image: image.attrs["Size"]).id  # that of this machine, not of a test's directory
    made = client.api.create_container(base, ["none"])["Id"]
    client.api.commit(made, "tagged", "1", changes=["ENV PATH=/opt/tool/bin:/usr/local/bin:/usr/bin", "ENV TOOL=yes"])
    client.api.remove_container(made)
    return "docker:tagged:1"
