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

_ADD = """\
added=0
git add -A --ignore-errors 2> "$GIT_DIR/problems" || { added=$?; head -c 2000 "$GIT_DIR/problems" >&2; }
printf '%s\\n' "$added"
"""

_DIFF = """\
git diff-index --cached -p --binary --full-index --no-renames --no-ext-diff --no-textconv --no-color \\
  --src-prefix=a/ --dst-prefix=b/ --submodule=short --ignore-submodules=none "$SWE_TREE" --"""

_TO_FILE = ' > "$GIT_DIR/patch"\nwc -c < "$GIT_DIR/patch"\n'

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
        await environment.write_file(f"{git.directory}/objects/pack/pack-baseline.idx", baseline.pack_index)
        await environment.write_file(f"{git.directory}/index", baseline.index)
        data, complete = await _diff(git, baseline, max_bytes)
        if not complete or _NEW_SUBMODULE.search(data):
            await git.run(_UNNEST, baseline.submodules, interpreter="bash")
            await environment.write_file(f"{git.directory}/index", baseline.index)
            data, complete = await _diff(git, baseline, max_bytes)
        sections = [_decode(part) for part in _SECTION.split(data)]
        if None in sections:
            both = zip(sections, _SECTION.split(await _diff_file(git, baseline, BINARY, max_bytes)), strict=True)
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


async def _diff(git: PrivateGit, baseline: Baseline, max_bytes: int) -> tuple[bytes, bool]:
    """The diff, and whether git could read every file."""
    result = await git.run(_ADD + _DIFF, env={"SWE_TREE": baseline.tree})
    added, _, text = result.stdout.partition("\n")
    # 1: some files could not be added (128: none were); if for want of space, then that is no property of the files
    if result.exit_code or added not in ("0", "1") or any(sign in result.stderr for sign in _CANNOT_STORE):
        raise PatchError(f"git failed: exit {result.exit_code}, add {added or '?'}: {result.stderr[-2000:]}")
    if result.truncated or "\ufffd" in text:  # too long for an output, or perhaps no UTF-8
        return await _diff_file(git, baseline, TEXT, max_bytes), added == "0"
    if len(data := text.encode()) > max_bytes:
        raise _TooLarge
    return data, added == "0"


async def _diff_file(git: PrivateGit, baseline: Baseline, attributes: str, max_bytes: int) -> bytes:
    """The diff of what was added, by way of a file: exact whatever is in it."""
    result = await git.run(_DIFF + _TO_FILE, attributes=attributes, env={"SWE_TREE": baseline.tree})
    if result.exit_code:
        raise PatchError(f"git diff failed: exit {result.exit_code}: {result.stderr[-2000:]}")
    if int(result.stdout) > max_bytes:
        raise _TooLarge
    return await git.environment.read_file(f"{git.directory}/patch")


def _decode(data: bytes) -> str | None:
    """Text of one file's part of a diff; None if it is no UTF-8: the file's contents are not, or (where they
    appear as a binary hunk) the target of a symbolic link is not."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
