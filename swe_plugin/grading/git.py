"""Git that listens to nobody: a private GIT_DIR with our configuration, attributes and excludes.

An agent owns the repository it works in: it can commit, delete ``.git``, install hooks, filters, a file-system
monitor or attributes. So git never looks there. It gets a directory of its own with a fresh index, reads file
contents byte by byte (no line-end, ident, filter or encoding conversion) and runs no program but itself.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from swe_plugin.errors import GraderError

if TYPE_CHECKING:
    from swe_plugin.environments.base import Environment
    from swe_plugin.types import ExecResult

__all__ = ["BINARY", "TEXT", "PrivateGit"]

_CONFIG = """\
[core]
repositoryformatversion = 0
bare = false
filemode = true
symlinks = true
ignorecase = false
autocrlf = false
safecrlf = false
eol = lf
quotepath = true
hooksPath = /dev/null
fsmonitor = false
untrackedCache = false
splitIndex = false
trustctime = true
excludesFile = /dev/null
attributesFile = /dev/null
protectNTFS = false
protectHFS = false
compression = 1
[apply]
whitespace = nowarn
ignoreWhitespace = no
[gc]
auto = 0
[diff]
renames = false
"""

TEXT = "* -text -eol -ident -filter -working-tree-encoding -crlf -merge !diff\n"
"""Attributes: file contents are taken as they are. ``info/attributes`` outranks every ``.gitattributes``."""

BINARY = TEXT.replace("!diff", "-diff")
"""The same, and every difference is written as a binary patch, which is ASCII whatever the file holds."""

_EXCLUDES = "__pycache__/\n*.py[co]\n.pytest_cache/\n.mypy_cache/\n.ruff_cache/\n"
"""By-products of running code: never part of a patch unless the baseline has the file."""

_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_COUNT": "0",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}

_SETUP = """\
set -e
mkdir -p "$GIT_DIR/objects" "$GIT_DIR/refs" "$GIT_DIR/info"
printf 'ref: refs/heads/private\\n' > "$GIT_DIR/HEAD"
printf '%s' "$SWE_CONFIG" > "$GIT_DIR/config"
printf '%s' "$SWE_ATTRIBUTES" > "$GIT_DIR/info/attributes"
printf '%s' "$SWE_EXCLUDES" > "$GIT_DIR/info/exclude"
[ -d "$GIT_WORK_TREE" ] || mkdir -p "$GIT_WORK_TREE"
cd "$GIT_WORK_TREE"
"""


@dataclass(frozen=True, slots=True)
class PrivateGit:
    """One private GIT_DIR inside an environment, at a path nobody can guess.

    Attributes:
        environment: where it is.
        directory: absolute path inside.
        timeout_s: wall-clock limit of one script.
    """

    environment: Environment
    timeout_s: float = 120.0
    directory: str = field(default_factory=lambda: f"/tmp/.git-{secrets.token_hex(8)}")  # noqa: S108

    async def run(
        self,
        script: str,
        args: Sequence[str] = (),
        *,
        attributes: str = TEXT,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        interpreter: str = "sh",
    ) -> ExecResult:
        """Run a shell script in the work directory, with ``git`` bound to the private directory.

        Raises:
            GraderError: it did not end in time.
            EnvironmentUnavailable: the environment is dead.
        """
        workdir = self.environment.spec.image.workdir
        bound = {
            **_ENVIRONMENT,
            **(env or {}),
            "GIT_DIR": self.directory,
            "GIT_WORK_TREE": workdir,
            "GIT_INDEX_FILE": f"{self.directory}/index",
            "SWE_CONFIG": _CONFIG,
            "SWE_ATTRIBUTES": attributes,
            "SWE_EXCLUDES": _EXCLUDES,
        }
        argv = [interpreter, "-c", _SETUP + script, "git", *args]
        result = await self.environment.exec(argv, cwd="/", env=bound, timeout_s=self.timeout_s, stdin=stdin)
        if result.timed_out:
            raise GraderError(f"git did not end within {self.timeout_s:g} s")
        return result
