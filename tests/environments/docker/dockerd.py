"""A Docker daemon of the tests' own: no network, no registry, its files in a temporary directory."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import docker
import pytest
from docker.errors import DockerException

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
        (self.root / "pid").unlink(missing_ok=True)
        # After a crash its containerd is dead too; where init is slow to reap, dockerd would take the zombie for alive.
        (self.root / "exec/containerd/containerd.pid").unlink(missing_ok=True)
        with (self.root / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, start_new_session=True, cwd=self.root
            )
        deadline = time.monotonic() + _UP_WITHIN_S
        while not self.answers():
            assert self.process.poll() is None, (self.root / "log").read_text()[-3000:]
            assert time.monotonic() < deadline, (self.root / "log").read_text()[-3000:]
            time.sleep(0.1)

    def command(self):
        places = [f"--data-root={self.root}/data", f"--exec-root={self.root}/exec", f"--pidfile={self.root}/pid"]
        return ["dockerd", *places, f"--host={self.host}", *_OPTIONS]

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

    def containers(self, attribute="name"):
        """All containers but the one that holds the supervisor, by name or ``id``."""
        client = docker.DockerClient(base_url=self.host, timeout=30)
        try:
            found = client.containers.list(all=True, ignore_removed=True)
            return [getattr(item, attribute) for item in found if not item.name.startswith("swe-plugin-guest-")]
        finally:
            client.close()


class Podman(Dockerd):
    """Podman's service, which speaks the same API."""

    def command(self):
        places = ["--root", f"{self.root}/data", "--runroot", f"{self.root}/exec"]
        settings = ["--runtime=runc", "--cgroup-manager=cgroupfs"]
        return ["podman", *places, *settings, "system", "service", "--time=0", self.host]


def _unmount(root):
    """What a crashed daemon had mounted stays mounted."""
    places = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for place in sorted((place for place in places if Path(place).is_relative_to(root)), reverse=True):
        subprocess.run(["umount", "-l", place], check=True)


@contextlib.contextmanager
def running_dockerd(root):
    """A daemon with its files in `root`, which is removed in the end."""
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        pytest.skip("starting a Docker daemon needs root and dockerd (Debian: apt-get install docker.io)")
    daemon = (Podman if os.environ.get("SWE_TEST_ENGINE") == "podman" else Dockerd)(root)
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.end()
        _unmount(root)
        shutil.rmtree(root)
