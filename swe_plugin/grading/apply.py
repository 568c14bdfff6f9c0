"""Bringing a patch into a fresh environment, exactly."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from swe_plugin.errors import GradingAborted, PatchError
from swe_plugin.grading.git import PrivateGit

if TYPE_CHECKING:
    from swe_plugin.environments.base import Environment

__all__ = ["apply_patch"]

_APPLY = 'git apply --whitespace=nowarn "$@" -\n'
_GLOB = re.compile(r"([*?\[\\])")
_NO_SPACE = ("No space left", "quota exceeded", "Cannot allocate")
_NOT_TEXT = re.compile(r"[\udc80-\udcff]")  # bytes of a name that is no UTF-8


async def apply_patch(environment: Environment, patch: str, *, leave_out: Sequence[str] = ()) -> None:
    """Apply a patch in git's form to the work directory: all of it or nothing.

    Contents are patched byte by byte; no line end, encoding or attribute of the repository plays a part. Paths
    outside the work directory, in ``.git`` or behind a symbolic link are refused by git.

    Args:
        environment: started and untouched.
        patch: not empty.
        leave_out: paths whose changes are not applied.

    Raises:
        PatchError: it does not apply.
        GradingAborted: there is no room for it.
        GraderError: git did not end in time.
        EnvironmentUnavailable: the environment is dead.
    """
    excludes = ["--exclude=" + _NOT_TEXT.sub("?", _GLOB.sub(r"\\\1", path)) for path in leave_out]
    result = await PrivateGit(environment).run(_APPLY, excludes, stdin=patch.encode())
    if result.exit_code and any(sign in result.stderr for sign in _NO_SPACE):
        raise GradingAborted(f"the patch fills the disk: {result.stderr[-500:]}")
    if result.exit_code:
        raise PatchError(f"the patch does not apply: exit {result.exit_code}: {result.stderr[-2000:]}")
