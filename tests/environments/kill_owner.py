"""What dies in `kills`: lives of environments and builds of images, which say at any instant what they are at.

``python -m environments.kill_owner BACKEND BOARD SCRATCH MARK OPTIONS``:
a byte of the file BOARD per lane is its phase.
"""

import asyncio
import itertools
import json
import mmap
import os
import sys
import uuid
from pathlib import Path

from environments.image_archives import docker_save, layer
from swe_plugin.environments import AGENT_ENV, EnvironmentSpec
from swe_plugin.types import Image

PHASES = ("start-up", "build", "start", "shell", "exec", "upload", "download", "stop")
LANES = 3
"""Two of environments, one of builds."""


class Owner:
    """One process that owns environments."""

    def __init__(self, backend, board, scratch, mark, options):
        self.backend, self.scratch, self.mark, self.options = backend, scratch, mark, options
        self.name = uuid.uuid4().hex
        fd = os.open(board, os.O_RDWR)
        self.board = mmap.mmap(fd, LANES)

    def at(self, lane, phase):
        """Say what a lane does from now on."""
        self.board[lane] = PHASES.index(phase)

    async def live(self, lane):
        """Environments one after the other, each of an image that nobody has built yet."""
        tree = self.scratch / self.name
        tree.mkdir(exist_ok=True)
        (tree / "data").write_bytes(os.urandom(1 << 20))
        for number in itertools.count():
            image = Image(files={"a.py": f"# {self.name} {lane} {number}\n" * 100})
            spec = EnvironmentSpec(image, env=AGENT_ENV, label=self.mark, options=self.options)
            environment = self.backend(spec)
            self.at(lane, "start")
            await environment.start()
            self.at(lane, "shell")
            await environment.shell(f"bash -c 'sleep 300; :' {self.mark} & setsid bash -c 'sleep 301; :' {self.mark} &")
            self.at(lane, "exec")
            await environment.exec(["git", "status"])
            self.at(lane, "upload")
            await environment.upload(tree, "/tmp/tree")
            self.at(lane, "download")
            await environment.download("/tmp/tree", self.scratch / f"{self.name}-{lane}-{number}")
            self.at(lane, "stop")
            await environment.stop()

    def build(self, lane, build):
        """Bases that are unpacked and repositories that are made, one after the other. Blocking."""
        for number in itertools.count():
            files = [(f"usr/{at}", f"{self.name} {number} {at}" * 100) for at in range(50)]
            archive = docker_save(self.scratch / f"{self.name}-{number}.tar", [layer(*files), layer(("etc/x", "x"))])
            self.at(lane, "build")
            build(Image(f"oci:{archive}", files={"b.py": f"# {self.name} {number}\n"}))

    async def run(self, build):
        """Everything at once, until somebody ends it."""
        await asyncio.gather(*(self.live(lane) for lane in range(LANES - 1)), asyncio.to_thread(self.build, 2, build))


def parts(backend):
    """The class of environments and what builds an image for it."""
    if backend == "sandbox":
        from swe_plugin.environments.images import resolve
        from swe_plugin.environments.sandbox import SandboxEnvironment

        return SandboxEnvironment, lambda image: resolve(image, owner=(1000, 1000)).release()
    from swe_plugin.environments.docker import DockerEnvironment
    from swe_plugin.environments.docker.daemon import current_daemon
    from swe_plugin.environments.docker.images import prepare

    def build(image):
        daemon = current_daemon(os.environ["DOCKER_HOST"])
        prepare(daemon.api, daemon.lease.id, daemon.machine, image, "/home/agent")

    return DockerEnvironment, build


if __name__ == "__main__":
    name, board, scratch, mark, options = sys.argv[1:]
    environment, build = parts(name)
    asyncio.run(Owner(environment, Path(board), Path(scratch), mark, json.loads(options)).run(build))
