"""Attacks: what a hostile agent tries, each a script that prints BREACH if it got something it must not have.

One table for every backend and mode; `docs/security.md` is made from it (`python tests/environments/attack_page.py`).
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from swe_plugin.environments.base import Environment

__all__ = ["ATTACKS", "Attack", "Bait", "bait", "breaches"]

TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Attack:
    """One attempt.

    Attributes:
        goal: what the agent is after, for the page.
        code: Python, run inside by the environment's own interpreter with the names of `Bait` set.
        shell: bash instead.
        warned: backend -> why it is open there, which its documentation and its first start say too.
    """

    goal: str
    code: str = ""
    shell: str = ""
    warned: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Bait:
    """What there is to be had on this machine, and how each would be recognised."""

    word: str
    file: str
    port: int
    abstract: str
    pid: int
    home: str


@contextlib.contextmanager
def bait() -> Iterator[Bait]:
    """A secret file, a secret variable of a process, a server on loopback, an abstract socket, a victim process."""
    word = f"swordfish-{uuid.uuid4().hex}"
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="swe-attack-"))
        file = Path(folder, "gold.patch")
        file.write_text(word)
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        name = f"swe-attack-{uuid.uuid4().hex}"
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(f"\0{name}")
        unix.listen()
        victim = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)", word], env=os.environ | {"API_KEY": word}
        )
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        home = os.environ.get("SWE_PLUGIN_HOME", str(Path.home() / ".cache/swe-plugin"))
        yield Bait(word, str(file), server.getsockname()[1], name, victim.pid, home)


async def breaches(environment: Environment, attack: Attack, bait: Bait) -> str:
    """What the attack printed after BREACH; empty if it got nothing."""
    values = {name: getattr(bait, name) for name in ("file", "port", "abstract", "pid", "home")}
    if attack.shell:
        lines = [f"{name}='{value}'" for name, value in values.items()]
        argv = ["bash", "-c", "\n".join([*lines, attack.shell])]
    else:
        lines = [f"{name} = {value!r}" for name, value in values.items()]
        argv = ["python3", "-I", "-S", "-c", "\n".join([_PRELUDE, *lines, attack.code])]
    done = await environment.exec(argv, timeout_s=TIMEOUT_S)
    printed = done.stdout + done.stderr
    if bait.word in printed:
        return f"the secret was printed: {printed[:200]}"
    return next((line for line in printed.splitlines() if line.startswith("BREACH")), "")


_PRELUDE = """
import ctypes, errno, glob, os, platform, resource, signal, socket, struct, time
libc = ctypes.CDLL(None, use_errno=True)
ARM = platform.machine() == "aarch64"
def call(numbers, *words):
    ctypes.set_errno(0)
    return libc.syscall(numbers[ARM], *words)
def breach(what="done"):
    print("BREACH", what, flush=True)
def attempt(function, *words):
    try:
        return function(*words)
    except OSError:
        return None
"""

ATTACKS = {
    name: Attack(**attack)
    for name, attack in yaml.safe_load(Path(__file__).with_name("attacks.yaml").read_text(encoding="utf-8")).items()
}
"""Name -> attack. Those of resources come last, and the environment has to live on after each."""
