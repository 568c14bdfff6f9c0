"""`python -m verl.trainer.main_ppo WORDS` without paying for verl's import each time.

One process imports verl and forks a child per command line. The child runs our bootstrap and then verl's own Hydra
main, with the words as its arguments, its own directory, environment and output: nothing is replaced.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SERVER = """
import json, os, sys
import hydra  # a process that has imported Hydra is a driver to our bootstrap
import verl.trainer.main_ppo as program
from swe_plugin.verl_adapter import bootstrap

for line in sys.stdin:
    request = json.loads(line)
    child = os.fork()
    if child == 0:
        for descriptor, path in ((0, os.devnull), (1, request["out"]), (2, request["err"])):
            os.dup2(os.open(path, os.O_RDWR), descriptor)
        os.chdir(request["cwd"])
        os.environ.update(request["env"])
        sys.argv = ["main_ppo.py", *request["words"]]
        bootstrap.load(sys.argv[1:])
        program.main()
        sys.exit()
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


@dataclass(frozen=True)
class Done:
    """Exit code and output of one command line."""

    returncode: int
    stdout: str
    stderr: str


@cache
def _server() -> subprocess.Popen[str]:
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={key: value for key, value in os.environ.items() if key != "SWE_PLUGIN_DEVICE"},
    )
    atexit.register(server.kill)
    return server


def main_ppo(*words: str, cwd: Path | str = "/", env: Mapping[str, str] | None = None) -> Done:
    """Run one command line to its end. It must be one that trains nothing: ``--cfg``, ``--help``, or a refusal."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
        request = {"words": words, "cwd": str(cwd), "env": dict(env or {}), "out": out.name, "err": err.name}
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        code = server.stdout.readline()
        assert code, "the process that imports verl ended"
        return Done(int(code), out.read(), err.read())
