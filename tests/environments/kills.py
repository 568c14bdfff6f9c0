"""kill -9 of owners of environments at random instants, then a next start, then a look at what is left.

Used by the tests with a few rounds and by `make bench-kill-environments` with three hundred.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from environments.kill_owner import LANES, PHASES
from swe_plugin.environments import AGENT_ENV, EnvironmentLimits, EnvironmentSpec
from swe_plugin.environments.home import home
from swe_plugin.environments.images import ImageStore
from swe_plugin.environments.leases import lease_directory
from swe_plugin.types import Image

AT_ONCE = 4
"""Owners that live, and die, side by side."""
_PATIENCE_S = 30.0
_UP_WITHIN_S = 600.0
_STOP = PHASES.index("stop")
_EARLY = 0.1
"""Share of rounds that kill what has not begun."""


@dataclass
class Outcome:
    """What came of some kills: how often each phase was hit (in three lanes an owner), and all that was left."""

    kills: int = 0
    phases: Counter = field(default_factory=Counter)
    held: int = 0
    left: list[str] = field(default_factory=list)


class Owner:
    """A process to be killed."""

    def __init__(self, place):
        self.board = place.scratch / f"board-{uuid.uuid4().hex}"
        self.board.write_bytes(bytes(LANES))
        temporary = place.scratch / "tmp"
        temporary.mkdir(exist_ok=True)
        paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        variables = os.environ | {"TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(paths), "MARK": place.mark}
        words = [place.backend, self.board, place.scratch, place.mark, json.dumps(place.options)]
        command = [sys.executable, "-P", "-m", "environments.kill_owner", *words]
        self.log = self.board.with_suffix(".log")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, env=variables, stdout=log, stderr=log)

    def phases(self):
        return [PHASES[number] for number in self.board.read_bytes()]

    def kill(self):
        assert self.process.poll() is None, self.log.read_text()[-2000:]
        phases = self.phases()
        self.process.kill()
        self.process.wait()
        return phases


class Place:
    """What a backend may leave somewhere on this machine."""

    def __init__(self, backend, scratch, mode="auto"):
        self.options = {"mode": mode} if backend == "sandbox" else {}
        self.backend, self.scratch, self.mark = backend, scratch, f"mark-{uuid.uuid4().hex}"
        self.names = {self.mark}
        self.mounts = _mounts()

    def remember(self):
        """Take down the names of what exists now, by which leftovers are found; how many leases there are."""
        leases = [path.stem for path in lease_directory().glob("*.json")]
        self.names.update(leases)
        return len(leases)

    def left(self):
        """Everything that should not be there any more; empty if all is well."""
        found = [f"process {pid}: {line}" for pid, line in _processes(self.names)]
        found += [f"mount {line}" for line in _mounts() - self.mounts if str(home()) in line]
        found += [f"cgroup {path}" for path in _cgroups(self.names)]
        found += [f"loop device for {path}" for path in _loops() if str(home()) in path]
        found += [f"socket {line}" for line in _sockets() if str(self.scratch) in line or str(home()) in line]
        folders = [lease_directory(), home() / "images/tmp", home() / "mnt", self.scratch / "tmp"]
        found += [f"file {path}" for folder in folders if folder.is_dir() for path in folder.iterdir()]
        return found

    def broken(self):
        """Layers of the store that are not as they were built."""
        store = ImageStore()
        entries = store.entries()
        found = [f"layer {entry.key}: {reason}" for entry in entries if (reason := store.damage(entry))]
        return found + [f"layer {entry.key}: no description" for entry in entries if "was lost" in entry.what]

    def forget(self):
        """End what this process uses itself."""
        from swe_plugin.environments.sandbox import close_zygote

        close_zygote()

    def environment(self, spec):
        from swe_plugin.environments.sandbox import SandboxEnvironment

        return SandboxEnvironment(spec)


class DockerPlace(Place):
    """The same for containers of a daemon of ours."""

    def __init__(self, backend, scratch, dockerd):
        super().__init__(backend, scratch)
        self.dockerd = dockerd

    def remember(self):
        self.names.update(self.dockerd.containers("id"))
        return super().remember()

    def left(self):
        found = [f"container {name}" for name in self.dockerd.containers()]
        found += [f"mount {line}" for line in _mounts() - self.mounts if str(self.dockerd.root) in line]
        return found + super().left()

    def forget(self):
        from swe_plugin.environments.docker import close_daemons

        close_daemons()
        super().forget()  # images are built in sandboxes

    def environment(self, spec):
        from swe_plugin.environments.docker import DockerEnvironment

        return DockerEnvironment(spec)


def play(place, kills, seed):
    """Kill that many owners. The first ones only show how long a life takes here; they are killed, too.

    Args:
        place: where.
        kills: at least this many.
        seed: of the instants.
    """
    chance, outcome = random.Random(seed), Outcome()
    begins_s, life_s = 0.0, 0.0
    asyncio.run(_next_start(place))  # what everybody shares is there
    place.forget()
    while outcome.kills < kills:
        owners = [Owner(place) for _ in range(AT_ONCE)]
        try:
            if not life_s:
                begins_s, life_s = _until(owners, any), _until(owners, _is_stopping)
                instants = [0.0] * AT_ONCE
            elif chance.random() < _EARLY:
                instants = sorted(chance.uniform(0, begins_s) for _ in owners)
            else:
                _until(owners, any)
                instants = sorted(chance.uniform(0, 1.5 * life_s) for _ in owners)
            began = time.monotonic()
            for instant, owner in zip(instants, owners, strict=True):
                time.sleep(max(0.0, began + instant - time.monotonic()))
                outcome.held += place.remember()
                outcome.phases.update(owner.kill())
        finally:
            for owner in owners:
                owner.process.kill()
                owner.process.wait()
        outcome.kills += len(owners)
        asyncio.run(_next_start(place))
        outcome.left += _look(place)
    return outcome


def _is_stopping(board):
    return _STOP in board[: LANES - 1]


def _until(owners, condition):
    """Seconds until the board of one fulfils a condition."""
    began = time.monotonic()
    while not any(condition(owner.board.read_bytes()) for owner in owners):
        assert time.monotonic() < began + _UP_WITHIN_S, owners[0].log.read_text()[-2000:]
        time.sleep(0.001)
    return time.monotonic() - began


async def _next_start(place):
    """A start reaps what is left; its environment is a whole one."""
    text = f"# {place.mark}\n"
    limits = EnvironmentLimits(start_timeout_s=240)
    spec = EnvironmentSpec(Image(files={"a.py": text}), limits, AGENT_ENV, options=place.options)
    async with place.environment(spec) as environment:
        assert (await environment.read_file("/testbed/a.py")).decode() == text
        assert (await environment.exec(["git", "status", "--porcelain"])).stdout == ""


def _look(place):
    """What is left after the next start has ended, too."""
    place.forget()
    deadline = time.monotonic() + _PATIENCE_S
    while (left := place.left()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left + place.broken()


def _processes(names):
    """Processes of this machine that have one of the names in their command line or their environment."""
    wanted = [name.encode() for name in names]
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
                text = line + (entry / "environ").read_bytes()
            except OSError:
                continue
            if any(name in text for name in wanted):
                yield int(entry.name), line.replace(b"\0", b" ").decode(errors="replace")


def _mounts():
    return set(Path("/proc/self/mountinfo").read_text().splitlines())


def _cgroups(names):
    for directory, folders, _ in os.walk("/sys/fs/cgroup"):
        yield from (f"{directory}/{name}" for name in folders if name in names)


def _loops():
    return [path.read_text().strip() for path in Path("/sys/block").glob("loop*/loop/backing_file")]


def _sockets():
    return Path("/proc/net/unix").read_text().splitlines()
