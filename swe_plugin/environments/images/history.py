"""A repository without what came after its base commit.

Deleting references is not enough: packs, reflogs, alternates and dangling objects still hold the fix. So nothing of
the old ``.git`` is kept: a new one gets a pack of exactly the objects that the base commit reaches, and a fresh index,
configuration and branch. The old directory is only ever read as data; git never takes its configuration from there.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from swe_plugin.environments.images.git import run_git
from swe_plugin.environments.images.view import MergedView
from swe_plugin.errors import EnvironmentStartError

__all__ = ["head_commit", "rebuild_git"]

_ID = re.compile(r"[0-9a-f]{40}")
_MAX_ALTERNATES = 5
_MAX_LINK_DEPTH = 5


def rebuild_git(view: MergedView, workdir: PurePosixPath, commit: str, target: Path) -> None:
    """Make the ``.git`` of an image's repository anew.

    Args:
        view: the image.
        workdir: the repository, its links followed.
        commit: base commit; empty: the one that is checked out.
        target: directory on this machine, in which ``.git`` is made; holds nothing else that matters.

    Raises:
        EnvironmentStartError: the base commit is not there, or the repository is damaged.
    """
    old = workdir / ".git"
    base = commit or head_commit(view, old)
    run_git(target, "init", "-q", "--initial-branch=main", "--template=")
    new = target / ".git"
    (new / "info").mkdir(exist_ok=True)
    (new / "info/exclude").write_text(_text(view, old / "info/exclude"))
    if not base:
        return
    with tempfile.TemporaryDirectory(dir=target, prefix=".objects-") as borrowed:
        objects = list(_borrow(view, old / "objects", Path(borrowed)))
        env = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": ":".join(objects)}
        _take(view, old, new, base, env)
    run_git(target, "update-ref", "refs/heads/main", base)
    run_git(target, "read-tree", base)
    shutil.rmtree(new / "logs", ignore_errors=True)


def head_commit(view: MergedView, git: PurePosixPath) -> str:
    """The commit that a ``.git`` directory has checked out; empty if there is none yet.

    Raises:
        EnvironmentStartError: its HEAD is nothing that git writes.
    """
    head = _text(view, git / "HEAD").strip()
    for _ in range(_MAX_LINK_DEPTH):
        if not head.startswith("ref:"):
            break
        name = head.removeprefix("ref:").strip()
        loose = "" if ".." in PurePosixPath(name).parts else _text(view, git / name).strip()
        head = loose or dict(_packed(view, git)).get(name, "")
    if head and not _ID.fullmatch(head):
        raise EnvironmentStartError(f"{git}/HEAD is damaged: {head[:60]!r}")
    return head


def _take(view: MergedView, old: PurePosixPath, new: Path, base: str, env: dict[str, str]) -> None:
    """Pack what `base` reaches, and the tags on its way: version numbers are made of them."""
    top = new.parent
    if shallow := _text(view, old / "shallow"):
        (new / "shallow").write_text("".join(f"{line}\n" for line in shallow.split() if _ID.fullmatch(line)))
    try:
        reached = set(run_git(top, "rev-list", f"{base}^{{commit}}", env=env).split())
    except EnvironmentStartError as error:
        raise EnvironmentStartError(
            f"its repository lacks the base commit {base} or what that needs ({error}); "
            "an empty base_commit takes the one that is checked out"
        ) from error
    if shallow:
        (new / "shallow").write_text("".join(f"{line}\n" for line in shallow.split() if line in reached))
    tags = {name: tag for name, tag in _tags(view, old) if _peeled(top, tag, env) in reached}
    tips = "\n".join([base, *tags.values()])
    run_git(top, "pack-objects", "-q", "--revs", ".git/objects/pack/pack", stdin=tips, env=env)
    for name, tag in tags.items():
        run_git(top, "update-ref", name, tag, env=env)


def _peeled(top: Path, tag: str, env: dict[str, str]) -> str:
    try:
        return run_git(top, "rev-parse", "-q", "--verify", f"{tag}^{{commit}}", env=env).strip()
    except EnvironmentStartError:
        return ""  # of something else, or of an object that is missing


def _tags(view: MergedView, git: PurePosixPath) -> Iterator[tuple[str, str]]:
    packed = {name: value for name, value in _packed(view, git) if name.startswith("refs/tags/")}
    loose = {str(path.relative_to(git)): _text(view, path).strip() for path, _ in view.walk(git / "refs/tags")}
    for name, value in {**packed, **loose}.items():
        if _ID.fullmatch(value):
            yield name, value


def _packed(view: MergedView, git: PurePosixPath) -> Iterator[tuple[str, str]]:
    for line in _text(view, git / "packed-refs").splitlines():
        value, _, name = line.partition(" ")
        if _ID.fullmatch(value) and name:
            yield name.strip(), value


def _borrow(view: MergedView, objects: PurePosixPath, target: Path) -> Iterator[str]:
    """Object directories, alternates included, as directories of this machine."""
    todo: list[PurePosixPath] = [view.resolve(objects)]
    seen: set[PurePosixPath] = set()
    while todo:
        inside = todo.pop()
        if inside in seen or len(seen) > _MAX_ALTERNATES:
            continue
        seen.add(inside)
        copy = target / str(len(seen))
        copy.mkdir()
        for path, real in view.walk(inside):
            to = copy / path.relative_to(inside)
            kind = real.lstat().st_mode
            if stat.S_ISDIR(kind):
                to.mkdir()
            elif stat.S_ISREG(kind) and to.parent != copy / "info":
                _link_or_copy(real, to)
        yield str(copy)
        for line in _text(view, inside / "info/alternates").splitlines():
            if line and not line.startswith("#"):
                todo.append(view.resolve(inside / line))


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # another file system, or not ours to link
        shutil.copyfile(source, target)


def _text(view: MergedView, path: PurePosixPath) -> str:
    real = view.find(path)
    return real.read_text(errors="replace") if real is not None and real.is_file() else ""
