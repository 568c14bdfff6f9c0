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
from swe_plugin.environments.images.packs import pack_history
from swe_plugin.environments.images.view import MergedView
from swe_plugin.environments.images.worktree import Move
from swe_plugin.errors import EnvironmentStartError

__all__ = ["head_commit", "rebuild_git"]

_ID = re.compile(r"[0-9a-f]{40}")
_REVISION = re.compile(r"(?P<name>\w[\w./+-]*)(?P<steps>[\^~0-9]*)", re.ASCII)
_BRANCHES = ("refs/heads/", "refs/remotes/origin/", "refs/tags/", "")
_MAX_ALTERNATES = 5
_MAX_LINK_DEPTH = 5


def rebuild_git(view: MergedView, workdir: PurePosixPath, commit: str, target: Path, packs: Path | None = None) -> Move:
    """Make the ``.git`` of an image's repository anew; returns which files are not yet those of the base commit.

    Args:
        view: the image.
        workdir: the repository, its links followed.
        commit: base commit: an id, or a branch or tag of the image's repository or of its ``origin``, also with steps
            back (``name^``, ``name~2``); empty: the one that is checked out.
        target: directory on this machine, in which ``.git`` is made; holds nothing else that matters.
        packs: see `packs.pack_history`.

    Raises:
        EnvironmentStartError: the base commit is not there, or the repository is damaged.
    """
    old = workdir / ".git"
    head = head_commit(view, old)
    run_git(target, "init", "-q", "--initial-branch=main", "--template=")
    new = target / ".git"
    (new / "info").mkdir(exist_ok=True)
    (new / "info/exclude").write_text(_text(view, old / "info/exclude"))
    if not commit and not head:
        return Move()
    with tempfile.TemporaryDirectory(dir=target, prefix=".objects-") as borrowed:
        objects = list(_borrow(view, old / "objects", Path(borrowed)))
        env = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": ":".join(objects)}
        base, move = _take(view, old, new, commit, env, packs)
    run_git(target, "update-ref", "refs/heads/main", base)
    run_git(target, "read-tree", base)
    shutil.rmtree(new / "logs", ignore_errors=True)
    return move


def head_commit(view: MergedView, git: PurePosixPath) -> str:
    """The commit that a ``.git`` directory has checked out; empty if there is none yet.

    Raises:
        EnvironmentStartError: its HEAD is nothing that git writes.
    """
    head = _text(view, git / "HEAD").strip()
    for _ in range(_MAX_LINK_DEPTH):
        if not head.startswith("ref:"):
            break
        head = _reference(view, git, head.removeprefix("ref:").strip())
    if head and not _ID.fullmatch(head):
        raise EnvironmentStartError(f"{git}/HEAD is damaged: {head[:60]!r}")
    return head


def _take(
    view: MergedView, old: PurePosixPath, new: Path, commit: str, env: dict[str, str], packs: Path | None
) -> tuple[str, Move]:
    """Pack what the base commit reaches, and the tags on its way: version numbers are made of them."""
    top, head = new.parent, head_commit(view, old)
    if shallow := _text(view, old / "shallow"):
        (new / "shallow").write_text("".join(f"{line}\n" for line in shallow.split() if _ID.fullmatch(line)))
    try:
        base = _find(view, old, top, commit, env) if commit else head
        reached = set(run_git(top, "rev-list", f"{base}^{{commit}}", env=env).split())
        move = _move(top, head, base, env)
    except EnvironmentStartError as error:
        raise EnvironmentStartError(
            f"its repository lacks the base commit {commit or head} or what that needs ({error}); "
            "an empty base_commit takes the one that is checked out"
        ) from error
    if shallow:
        (new / "shallow").write_text("".join(f"{line}\n" for line in shallow.split() if line in reached))
    tags = {name: tag for name, tag in _tags(view, old) if _peeled(top, tag, env) in reached}
    pack_history(top, base, list(tags.values()), None if shallow else packs, env)
    for name, tag in tags.items():
        run_git(top, "update-ref", name, tag, env=env)
    return base, move


def _find(view: MergedView, git: PurePosixPath, top: Path, revision: str, env: dict[str, str]) -> str:
    """Full id of what a revision of the image's repository names."""
    match = _REVISION.fullmatch(revision)
    if match is None:
        raise EnvironmentStartError(f"{revision!r} is no commit id, branch or tag")
    for prefix in _BRANCHES:
        start = _reference(view, git, prefix + match["name"]) if prefix else match["name"]
        if start and (found := _peeled(top, start + match["steps"], env)):
            return found
    raise EnvironmentStartError("nothing there has that name")


def _move(top: Path, head: str, base: str, env: dict[str, str]) -> Move:
    """What separates the files of the commit that is checked out from those of the base commit.

    Nothing if the base is older: then the image's maker put things on top of it on purpose.
    """
    links = [row.partition("\t") for row in run_git(top, "ls-tree", "-r", "-z", base, env=env).split("\0")]
    modules = tuple(path for kind, _, path in links if kind.startswith("160000 "))
    if not head or base == head or base in run_git(top, "rev-list", head, env=env).split():
        return Move(modules=modules)
    fields = run_git(top, "diff-tree", "-r", "-z", "--no-renames", "--name-status", head, base, env=env).split("\0")
    rows = list(zip(fields[::2], fields[1::2], strict=False))
    return Move(
        written=tuple(path for status, path in rows if status != "D" and path not in modules),
        removed=tuple(path for status, path in rows if status == "D"),
        modules=modules,
    )


def _peeled(top: Path, tag: str, env: dict[str, str]) -> str:
    try:
        return run_git(top, "rev-parse", "-q", "--verify", f"{tag}^{{commit}}", env=env).strip()
    except EnvironmentStartError:
        return ""  # of something else, or of an object that is missing


def _reference(view: MergedView, git: PurePosixPath, name: str) -> str:
    """What a reference is, a link to another one included; empty if there is none."""
    loose = "" if ".." in PurePosixPath(name).parts else _text(view, git / name).strip()
    return loose or dict(_packed(view, git)).get(name, "")


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
