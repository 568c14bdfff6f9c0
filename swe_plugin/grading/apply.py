"""Bringing a patch into a fresh environment, exactly."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from swe_plugin.errors import GradingAborted, PatchError
from swe_plugin.grading.git import PrivateGit

if TYPE_CHECKING:
    from swe_plugin.environments.base import Environment
    from swe_plugin.types import ExecResult

__all__ = ["apply_patch"]

_APPLY = 'git apply --whitespace=nowarn --apply --numstat -z "$@" -\n'
_GLOB = re.compile(r"([*?\[\\])")
_NO_SPACE = ("No space left", "quota exceeded", "Cannot allocate")
_THERE = re.compile(r"^error: (.+): already exists in working directory$", re.MULTILINE)
_NOT_TEXT = re.compile(r"[\udc80-\udcff]")  # bytes of a name that is no UTF-8


async def apply_patch(
    environment: Environment, patch: str, *, leave_out: Sequence[str] = (), known: Collection[str] | None = None
) -> None:
    """Apply a patch in git's form to the work directory: all of it or nothing.

    Contents are patched byte by byte; no line end, encoding or attribute of the repository plays a part. Paths
    outside the work directory, in ``.git`` or behind a symbolic link are refused by git. New files that are there
    already, untracked, are left out: the repository ignored them when the baseline was recorded and the agent did not.

    Args:
        environment: started and untouched.
        patch: not empty.
        leave_out: paths whose changes are not applied.
        known: all paths that the patch changes, as far as its reader knows; None: any.

    Raises:
        PatchError: it does not apply, or git finds a path in it that is not known: a header that says one thing to git
            and another to its reader.
        GradingAborted: there is no room for it.
        GraderError: git did not end in time.
        EnvironmentUnavailable: the environment is dead.
    """
    result = await _apply(environment, patch, leave_out)
    there = _THERE.findall(result.stderr) if result.exit_code else []
    if there and not (await environment.exec(["git", "ls-files", "--", *there])).stdout:
        result = await _apply(environment, patch, [*leave_out, *there])
    if result.exit_code and any(sign in result.stderr for sign in _NO_SPACE):
        raise GradingAborted(f"the patch fills the disk: {result.stderr[-500:]}")
    if result.exit_code:
        raise PatchError(f"the patch does not apply: exit {result.exit_code}: {result.stderr[-2000:]}")
    if known is not None and (unknown := _touched(result.stdout) - {_shown(path) for path in known}):
        raise PatchError(f"the patch does not apply: its headers hide {', '.join(sorted(unknown))[:500]}")


async def _apply(environment: Environment, patch: str, leave_out: Sequence[str]) -> ExecResult:
    excludes = ["--exclude=" + _NOT_TEXT.sub("?", _GLOB.sub(r"\\\1", path)) for path in leave_out]
    return await PrivateGit(environment).run(_APPLY, excludes, stdin=patch.encode())


def _touched(numstat: str) -> set[str]:
    """Paths of ``--numstat -z``: ``added TAB deleted TAB path NUL``; of a rename the new one."""
    return {part.split("\t", 2)[-1] for part in numstat.split("\0")} - {""}


def _shown(path: str) -> str:
    return path.encode(errors="surrogateescape").decode(errors="replace")
