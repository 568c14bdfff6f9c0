"""Fenced blocks of a page, and how the commands in them are run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from verl_adapter.main_ppo import main_ppo

from swe_plugin.cli.train import training_command

ROOT = Path(__file__).parents[2]
MARKER = re.compile(r"^ *<!-- not run: (.+?) -->$", re.MULTILINE)
FENCE = re.compile(r"^( *)```(.*)$")
VERL = ["python", "-m", "verl.trainer.main_ppo"]


@dataclass(frozen=True)
class Block:
    """One fenced block: `language` and `file` are the words after the fence, `not_run` is the marker before it."""

    line: int
    language: str
    file: str
    text: str
    not_run: str

    @property
    def commands(self) -> list[str]:
        """One per line; comments and continued lines are put together."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [line for line in lines if shlex.split(line, comments=True)]


def blocks(page: str) -> list[Block]:
    """All fenced blocks of a page's text."""
    found: list[Block] = []
    opened: tuple[int, str, str, str] | None = None
    inside: list[str] = []
    above = ""
    for number, line in enumerate(page.splitlines(), 1):
        fence = FENCE.match(line)
        if fence and opened is None:
            language, _, file = fence[2].strip().partition(" ")
            marker = MARKER.match(above)
            opened, inside = (number, language, file, marker[1] if marker else ""), []
        elif fence:
            assert opened is not None
            number, language, file, not_run = opened
            found.append(Block(number, language, file, "".join(f"{text}\n" for text in inside), not_run))
            opened, above = None, ""
        elif opened:
            inside.append(line)
        elif line.strip():
            above = line
    assert opened is None, f"the block of line {opened} is not closed"
    return found


def run_block(block: Block, directory: Path, home: Path) -> None:
    """Write the block's file, or run its commands.

    Raises:
        AssertionError: a command failed; its output.
    """
    if block.file:
        path = directory / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)
    elif block.language == "sh" and not block.not_run:
        for command in block.commands:
            code, output = run(command, directory, home)
            assert code == 0, f"line {block.line}: {command}\nexit code {code}\n{output}"


def run(command: str, directory: Path, home: Path) -> tuple[int, str]:
    """Exit code and output of a command line.

    What would take minutes is run as far as it costs nothing: `make` prints what it would do, a training prints
    the configuration that it would train with.
    """
    words = shlex.split(command, comments=True)
    if words[:2] == ["swe-plugin", "train"]:
        rest = words[2:]
        recipe = rest.pop(1) if rest[:1] == ["--recipe"] else ""
        words = training_command(recipe, rest[1:] if recipe else rest)
    if words[:3] == VERL:
        shows = any(word in ("--cfg", "--help") for word in words)
        done = main_ppo(*words[3:], *([] if shows else ["--cfg", "job"]), cwd=directory)
        return done.returncode, done.stdout + done.stderr
    if words[0] == "make":
        command = shlex.join(["make", "-n", "-C", str(ROOT), *words[1:]])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env=os.environ | {"PATH": path, "SWE_PLUGIN_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout
