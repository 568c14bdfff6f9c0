"""Git on this machine, deaf to every configuration but ours."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from swe_plugin.errors import EnvironmentStartError

__all__ = ["run_git"]

_DATE = 1577836800
_ENV = {
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "swe-plugin",
    "GIT_AUTHOR_EMAIL": "swe-plugin@localhost",
    "GIT_AUTHOR_DATE": f"{_DATE} +0000",
    "GIT_COMMITTER_NAME": "swe-plugin",
    "GIT_COMMITTER_EMAIL": "swe-plugin@localhost",
    "GIT_COMMITTER_DATE": f"{_DATE} +0000",
}
_CONFIG = ("core.hooksPath=/dev/null", "gc.auto=0", "core.autocrlf=false", "core.fileMode=true", "safe.directory=*")


def run_git(top: Path, *arguments: str, stdin: str = "", env: Mapping[str, str] | None = None) -> str:
    """Run git in `top` and return what it prints.

    Args:
        top: working directory, of a repository whose configuration is ours.
        arguments: command and its arguments.
        stdin: what it reads.
        env: variables in addition.

    Raises:
        EnvironmentStartError: it failed; the message holds what it said.
    """
    options = [word for setting in _CONFIG for word in ("-c", setting)]
    path = {"PATH": os.environ.get("PATH", os.defpath)}
    try:
        run = subprocess.run(
            ["git", *options, *arguments],
            cwd=top,
            env={**path, **_ENV, **(env or {})},
            input=stdin,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
        )
    except FileNotFoundError:
        raise EnvironmentStartError("git was not found on this machine: install it") from None
    if run.returncode:
        raise EnvironmentStartError(f"git {arguments[0]}: {run.stderr.strip() or run.returncode}")
    return run.stdout
