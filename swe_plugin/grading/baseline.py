"""The recorded baseline: what the work directory holds before the agent starts, kept where no agent can reach.

Images are content: two environments of one image start with the same tree. So the tree is recorded once per
image, before its first agent runs, and kept in this process as a git pack. To compare, the pack is brought into
the agent's environment after the agent is done.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict, defaultdict
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from swe_plugin.errors import PatchError
from swe_plugin.grading.git import PrivateGit

if TYPE_CHECKING:
    from swe_plugin.environments.base import Environment
    from swe_plugin.types import Task

__all__ = ["Baseline", "BaselineStore", "record_baseline"]

# Files that the repository tracks although it ignores them are part of the tree as well.
_RECORD = """\
if [ -e .git ]; then
  env -u GIT_INDEX_FILE GIT_DIR="$PWD/.git" git ls-files -z --cached --ignored --exclude-standard > "$GIT_DIR/forced"
  git update-index -z --add --stdin < "$GIT_DIR/forced"
fi
git add -A
tree=$(git write-tree)
name=$(printf '%s\\n' "$tree" | git pack-objects -q --revs --window=0 "$GIT_DIR/baseline")
mv "$GIT_DIR/baseline-$name.pack" "$GIT_DIR/baseline.pack"
mv "$GIT_DIR/baseline-$name.idx" "$GIT_DIR/baseline.idx"
printf '%s\\n' "$tree"
git ls-files -s -z > "$GIT_DIR/files"
rm "$GIT_DIR/index"  # git compares times by the second, which is too coarse to trust
git read-tree "$tree"
while IFS= read -r -d '' entry; do
  case "$entry" in 160000\\ *) printf '%s\\0' "${entry#*$'\\t'}";; esac
done < "$GIT_DIR/files"
"""


@dataclass(frozen=True, slots=True)
class Baseline:
    """A tree of raw file contents.

    Attributes:
        tree: its git object id.
        pack, pack_index: a git pack with all its objects, and the pack's index.
        index: a git index of the tree that knows no sizes and times, so that every file is read and compared.
        submodules: paths that were repositories of their own.
    """

    tree: str
    pack: bytes = field(repr=False)
    pack_index: bytes = field(repr=False)
    index: bytes = field(repr=False)
    submodules: tuple[str, ...] = ()


async def record_baseline(environment: Environment) -> Baseline:
    """Record the work directory of an environment that no agent has touched.

    Raises:
        PatchError: git is missing there, or failed.
        EnvironmentUnavailable: the environment is dead.
    """
    git = PrivateGit(environment)
    result = await git.run(_RECORD, interpreter="bash")
    if result.exit_code:
        raise PatchError(f"the baseline could not be recorded: exit {result.exit_code}: {result.stderr[-2000:]}")
    tree, _, modules = result.stdout.partition("\n")
    paths = tuple(path for path in modules.split("\0") if path)
    try:
        names = ("baseline.pack", "baseline.idx", "index")
        pack, pack_index, index = [await environment.read_file(f"{git.directory}/{name}") for name in names]
    except FileNotFoundError as error:
        raise PatchError(f"the baseline could not be read back: {error}") from error
    await environment.exec(["rm", "-rf", git.directory], cwd="/")
    return Baseline(tree.strip(), pack, pack_index, index, paths)


class BaselineStore:
    """Baselines by image, least recently used ones dropped beyond `max_bytes`; concurrent askers of one image
    record it once."""

    def __init__(self, max_bytes: int = 256 << 20) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[str, Baseline] = OrderedDict()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def get(self, task: Task, environment: Environment) -> Baseline:
        """The baseline of the task's image; recorded in `environment` (started, untouched) if it is not known.

        Raises:
            PatchError, EnvironmentUnavailable: see `record_baseline`.
        """
        key = _image_key(task)
        async with self._locks[key]:
            if key not in self._kept:
                self._kept[key] = await record_baseline(environment)
                self._shrink(key)
            self._kept.move_to_end(key)
            return self._kept[key]

    def _shrink(self, newest: str) -> None:
        while self._bytes() > self._max_bytes and len(self._kept) > 1:
            oldest = next(key for key in self._kept if key != newest)
            del self._kept[oldest]

    def _bytes(self) -> int:
        return sum(len(item.pack) + len(item.pack_index) + len(item.index) for item in self._kept.values())


def _image_key(task: Task) -> str:
    text = json.dumps([asdict(task.image), task.base_commit], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
