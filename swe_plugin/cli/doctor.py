"""`swe-plugin doctor`: is this machine, this installation, this recipe ready?"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from swe_plugin.preflight.docker import look_at_docker
from swe_plugin.preflight.finding import Finding
from swe_plugin.preflight.machine import look_at_machine
from swe_plugin.preflight.pins import look_at_pins
from swe_plugin.preflight.sandboxes import look_at_sandboxes
from swe_plugin.preflight.space import temporary_room

__all__ = ["examine"]

_DEFAULT_BACKEND = "sandbox"
_TIMEOUT_S = 600.0
"""Importing verl takes 10 to 20 s; a model of the Hugging Face hub may have to be downloaded in part."""


def examine(words: Sequence[str], say: Callable[[str], None]) -> Iterator[Finding]:
    """Look at everything; findings come as they are made.

    Args:
        words: of verl's command line, ``+plugin=...`` among them.
        say: told what is going on, before something slow.
    """
    yield from look_at_machine()
    yield temporary_room()
    yield from look_at_pins()
    backend = _DEFAULT_BACKEND
    if importlib.util.find_spec("verl") is None:
        install = "pip install 'swe-plugin[cpu]' (or [gpu]); the recipe is not looked at without it"
        yield Finding("verl", False, key="verl", value="not installed", fix=install)
    else:
        say("importing verl, composing the recipe, checking it")
        found, chosen = _ask_verl(words)
        backend = chosen or backend
        yield from found
    yield from look_at_sandboxes(needed=backend == "sandbox")
    yield look_at_docker(needed=backend == "docker")


def _ask_verl(words: Sequence[str]) -> tuple[list[Finding], str]:
    """What a process that imports verl says of a command line, and the backend that it selects."""
    with tempfile.TemporaryDirectory(prefix="swe-doctor-") as directory:
        result = Path(directory) / "result.json"
        command = [sys.executable, "-m", "swe_plugin.verl_adapter.doctor", str(result), *words]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, env=_environment()
            )
            ended = f"ended with exit code {done.returncode}: {done.stderr.strip()[-400:] or 'it said nothing'}"
        except subprocess.TimeoutExpired:
            ended = f"did not end within {_TIMEOUT_S:g} s"
        if not result.exists():
            return [Finding("verl", False, key=" ".join(command[1:3]), value="no result", fix=ended)], ""
        report = json.loads(result.read_text(encoding="utf-8"))
    return [Finding(**finding) for finding in report["findings"]], report["backend"]


def _environment() -> dict[str, str]:
    """Ours, less what marks a process of a run."""
    return {name: value for name, value in os.environ.items() if name != "SWE_PLUGIN_DEVICE"}
