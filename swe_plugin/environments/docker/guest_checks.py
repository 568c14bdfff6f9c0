"""Whether an agent can work in a container's image; looked at from inside, by its PID 1. Standard library only."""

from __future__ import annotations

import os
from collections.abc import Mapping

__all__ = ["check_image"]

_FIXES = {
    "bash": "the agent's shell is bash: install it in the image",
    "git": "patches are read with git: install it in the image",
}
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MACHINE = slice(18, 20)
"""Of an ELF header: what processor it is for."""


def check_image(workdir: str, env: Mapping[str, str]) -> None:
    """Look for bash, git and a work directory that can be written; make the home directory.

    Args:
        workdir: ``image.workdir``.
        env: variables of the agent's commands.

    Raises:
        ValueError: one is missing, read-only or made for another machine; says the fix.
    """
    for name in _FIXES:
        _check_program(name, env.get("PATH", _DEFAULT_PATH))
    if not os.path.isdir(workdir):
        raise ValueError(
            f"the image has no directory {workdir} (image.workdir): name the one that holds the repository"
        )
    if not os.access(workdir, os.W_OK | os.X_OK):
        owner = os.stat(workdir)
        raise ValueError(
            f"{workdir} is read-only for the agent (uid {os.getuid()}): give it to that user, make it writable for "
            f"all, or set swe.environment.options.user={owner.st_uid}:{owner.st_gid}, whose it is"
        )
    home = env.get("HOME", "")
    if home.startswith("/") and not os.path.isdir(home):
        os.makedirs(home, exist_ok=True)


def _check_program(name: str, path: str) -> None:
    for place in path.split(":"):
        program = f"{place}/{name}"
        if place.startswith("/") and os.path.isfile(program) and os.access(program, os.X_OK):
            _check_machine(program, name)
            return
    raise ValueError(f"the image has no {name} in {path}: {_FIXES[name]}")


def _check_machine(program: str, name: str) -> None:
    theirs, ours = _head(program), _head("/proc/self/exe")
    if theirs.startswith(b"\x7fELF") and theirs[_MACHINE] != ours[_MACHINE]:
        raise ValueError(
            f"wrong architecture: its {name} is ELF machine {theirs[18]}, the daemon's is {ours[18]}: build or pull "
            "the image for that machine"
        )


def _head(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(20)
