"""Whether an agent can work in an image at all; said before anything starts, with the fix."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from swe_plugin.environments.factory import AGENT_ENV
from swe_plugin.environments.images.view import MergedView
from swe_plugin.errors import EnvironmentStartError

__all__ = ["check_contents", "check_program"]

_MACHINES = {"x86_64": 62, "aarch64": 183}
_MACHINE_AT, _HEAD = 18, 20
_FIXES = {
    "bash": "the agent's shell is bash: install it in the image",
    "git": "patches are read with git: install it in the image",
    "python": "its requirements and tests need Python: install it in the image, or choose another base",
}


def check_contents(
    view: MergedView, workdir: str, *, env: Mapping[str, str], owner: tuple[int, int], python: str = ""
) -> None:
    """Look for bash, git, Python and a work directory that can be written.

    Args:
        view: the image.
        workdir: absolute path inside.
        env: the agent's environment variables; ``PATH`` says where programs are looked for.
        owner: user and group id, on this machine, of the agent.
        python: interpreter that has to be there; empty: none.

    Raises:
        EnvironmentStartError: something is missing or made for another machine; names it and the fix.
    """
    top = view.find(workdir)
    if top is None or not top.is_dir():
        raise EnvironmentStartError(
            f"the image has no directory {workdir} (image.workdir): name the one that holds the repository"
        )
    for name in ("bash", "git", *([python] if python else [])):
        check_program(view, name, env)
    if not _may_write(top, owner):
        raise EnvironmentStartError(
            f"{workdir} is read-only for the agent (uid {owner[0]}): give it to that user, or make it writable for all"
        )


def check_program(view: MergedView, name: str, env: Mapping[str, str]) -> None:
    """Look for one program in the ``PATH`` of `env`.

    Raises:
        EnvironmentStartError: it is missing or made for another machine; names it and the fix.
    """
    path = env.get("PATH", AGENT_ENV["PATH"])
    program = _program(view, name, path)
    if program is None:
        raise EnvironmentStartError(f"the image has no {name} in {path}: {_FIXES.get(name, _FIXES['python'])}")
    _check_machine(program, name)


def _program(view: MergedView, name: str, path: str) -> Path | None:
    places = [name] if name.startswith("/") else [f"{directory}/{name}" for directory in path.split(":")]
    for place in places:
        if place.startswith("/") and (real := view.find(PurePosixPath(place))) and real.is_file():
            return real
    return None


def _check_machine(program: Path, name: str) -> None:
    wanted = _MACHINES.get(os.uname().machine)
    with program.open("rb") as file:
        head = file.read(_HEAD)
    if wanted is None or not head.startswith(b"\x7fELF"):
        return  # a script
    byte_order = "little" if head[5] == 1 else "big"
    machine = int.from_bytes(head[_MACHINE_AT:_HEAD], byte_order)  # type: ignore[arg-type]
    if machine != wanted:
        known = {number: machine_name for machine_name, number in _MACHINES.items()}
        raise EnvironmentStartError(
            f"wrong architecture: its {name} is for {known.get(machine, f'ELF machine {machine}')}, this machine is "
            f"{os.uname().machine}: build or pull the image for this machine"
        )


def _may_write(directory: Path, owner: tuple[int, int]) -> bool:
    info = directory.stat()
    if info.st_uid == owner[0]:
        return bool(info.st_mode & stat.S_IWUSR)
    if info.st_gid == owner[1]:
        return bool(info.st_mode & stat.S_IWGRP)
    return bool(info.st_mode & stat.S_IWOTH)
