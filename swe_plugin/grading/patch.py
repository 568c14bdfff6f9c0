"""The agent's changes as one patch against the recorded baseline, exact to the byte."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from swe_plugin.errors import PatchError
from swe_plugin.grading.git import BINARY, TEXT, PrivateGit

if TYPE_CHECKING:
    from swe_plugin.environments.base import Environment
    from swe_plugin.grading.baseline import Baseline

__all__ = ["Diffable", "Patch", "extract_patch"]

# Environments end after this, so repositories that the agent made below the work tree may lose their .git: git
# would record such a directory as a commit id and leave its files out.
_UNNEST = """\
shopt -s globstar dotglob nullglob
for nested in */**/.git; do
  case "$nested" in .git/*) continue;; esac
  for kept in "$@"; do [ "$nested" = "$kept/.git" ] && continue 2; done
  rm -rf -- "$nested"
done
"""

_DIFF = """\
git read-tree "$SWE_TREE"
added=0
git add -A --ignore-errors 2> "$GIT_DIR/problems" || added=$?
git diff-index --cached -p --binary --full-index --no-renames --no-ext-diff --no-textconv --no-color \\
  --src-prefix=a/ --dst-prefix=b/ --submodule=short --ignore-submodules=none "$SWE_TREE" -- > "$GIT_DIR/patch"
printf '%s %s\\n' "$added" "$(wc -c < "$GIT_DIR/patch")"
head -c 2000 "$GIT_DIR/problems"
"""

_NEW_SUBMODULE = re.compile(rb"^new (?:file )?mode 160000$", re.MULTILINE)
_SECTION = re.compile(rb"^(?=diff --git )", re.MULTILINE)  # unambiguous: lines of contents have a prefix
_CANNOT_STORE = ("unable to write", "No space left", "quota exceeded", "Cannot allocate", "insufficient permission")


@runtime_checkable
class Diffable(Protocol):
    """An environment that knows its own changes, so that no git is needed (`DummyEnvironment`)."""

    def diff(self) -> str:
        """Unified diff in git's form of the work directory against the image."""
        ...


@dataclass(frozen=True, slots=True)
class Patch:
    """What the agent changed.

    Attributes:
        text: unified diff in git's form with binary hunks; always valid UTF-8; empty if nothing changed.
        flags: ``patch_too_large`` (`text` is empty then), ``patch_incomplete`` (some file could not be read).
    """

    text: str
    flags: tuple[str, ...] = ()


async def extract_patch(environment: Environment, baseline: Baseline, *, max_bytes: int = 4 << 20) -> Patch:
    """Compare the work directory with its baseline.

    Committed or not, staged or not makes no difference; ignored files and by-products of Python are left out.
    The agent's git configuration, hooks, attributes, index and history are not looked at.

    Args:
        environment: where the agent worked; it is of no other use after this.
        baseline: of its image.
        max_bytes: size of the largest patch that is read.

    Raises:
        PatchError: git failed although the environment is alive (its disk is full, say).
        EnvironmentUnavailable: the environment is dead.
    """
    git = PrivateGit(environment)
    try:
        await environment.write_file(f"{git.directory}/objects/pack/pack-baseline.pack", baseline.pack)
        await environment.write_file(f"{git.directory}/objects/pack/pack-baseline.idx", baseline.index)
        data, complete = await _diff(git, baseline, TEXT, max_bytes)
        if not complete or _NEW_SUBMODULE.search(data):
            await git.run(_UNNEST, baseline.submodules)
            data, complete = await _diff(git, baseline, TEXT, max_bytes)
        sections = [_decode(part) for part in _SECTION.split(data)]
        if None in sections:
            data, _ = await _diff(git, baseline, BINARY, max_bytes)
            both = zip(sections, _SECTION.split(data), strict=True)
            sections = [_decode(binary) if text is None else text for text, binary in both]
    except _TooLarge:
        return Patch("", ("patch_too_large",))
    except ConnectionError:
        raise
    except OSError as error:
        raise PatchError(f"the patch could not be read: {type(error).__name__}: {error}") from error
    complete = complete and None not in sections
    return Patch("".join(filter(None, sections)), () if complete else ("patch_incomplete",))


class _TooLarge(Exception):
    """The diff is larger than its reader wants."""


async def _diff(git: PrivateGit, baseline: Baseline, attributes: str, max_bytes: int) -> tuple[bytes, bool]:
    """The diff, and whether git could read every file."""
    result = await git.run(_DIFF, attributes=attributes, env={"SWE_TREE": baseline.tree})
    numbers, _, problems = result.stdout.partition("\n")
    if result.exit_code or any(sign in problems for sign in _CANNOT_STORE):
        raise PatchError(f"git failed: exit {result.exit_code}: {result.stderr[-2000:]}{problems}")
    added, size = map(int, numbers.split())
    if added > 1:
        raise PatchError(f"git add failed: exit {added}: {problems}")
    if size > max_bytes:
        raise _TooLarge
    return (await git.environment.read_file(f"{git.directory}/patch") if size else b""), added == 0


def _decode(data: bytes) -> str | None:
    """Text of one file's part of a diff; None if it is no UTF-8: the file's contents are not, or (where they
    appear as a binary hunk) the target of a symbolic link is not."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
