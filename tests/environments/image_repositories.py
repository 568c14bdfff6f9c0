"""Repositories as published images have them: the fix is hidden in every place where git keeps things."""

import os
import subprocess
from pathlib import Path

FIX = "def add(a, b):\n    return a + b  # the fix\n"
_ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
}


def git(top, *arguments, **options):
    command = ["git", "-c", "safe.directory=*", "-c", "init.defaultBranch=main", *arguments]
    return subprocess.run(
        command, cwd=top, env=_ENV, capture_output=True, text=True, check=True, **options
    ).stdout.strip()


def leaky_repository(top: Path, alternate: Path):
    """A repository at its base commit; returns (base, names of all objects that came after it).

    The fix is on a branch, under a remote, a tag, in a stash, the reflog, FETCH_HEAD and ORIG_HEAD, in a pack, as loose
    objects, dangling, staged, in a linked object directory (`alternate`), a note, a worktree and a replacement.
    """
    top.mkdir()
    git(top, "init", "-q")
    for number in (1, 2):
        (top / "calc.py").write_text(f"# {number}\ndef add(a, b):\n    return a - b\n")
        git(top, "add", ".")
        git(top, "commit", "-q", "-m", f"work {number}")
    base = git(top, "rev-parse", "HEAD")
    git(top, "tag", "v1.0", "HEAD~1")
    git(top, "tag", "-a", "v1.1", "-m", "annotated", "HEAD")
    before = _objects(top)
    (top / "calc.py").write_text(FIX)
    git(top, "commit", "-qam", "the fix")
    fix = git(top, "rev-parse", "HEAD")
    git(top, "tag", "v2.0")
    git(top, "branch", "fixed")
    git(top, "update-ref", "refs/remotes/origin/main", fix)
    git(top, "remote", "add", "origin", "https://example.invalid/repo.git")
    git(top, "notes", "add", "-m", "see the fix", fix)
    git(top, "repack", "-adq")
    (top / "second.py").write_text("loose = 'the fix, part two'\n")
    git(top, "add", ".")
    git(top, "commit", "-qm", "loose")
    git(top, "reset", "-q", "--hard", base)
    (top / "calc.py").write_text("stash of the fix\n")
    git(top, "stash", "-q")
    (top / "staged.py").write_text("staged fix\n")
    git(top, "add", "staged.py")
    (top / "staged.py").unlink()
    git(top, "hash-object", "-w", "--stdin", input="dangling fix\n")
    (top / ".git/FETCH_HEAD").write_text(f"{fix}\t\tbranch 'fixed'\n")
    (top / ".git/ORIG_HEAD").write_text(f"{fix}\n")
    alternate.mkdir(parents=True)
    git(alternate, "init", "-q", "--bare")
    (top / "third.py").write_text("third = 'the fix elsewhere'\n")
    elsewhere = git(alternate, "hash-object", "-w", str(top / "third.py"))
    (top / "third.py").unlink()
    with (top / ".git/config").open("a") as config:
        config.write("[core]\n\tfsmonitor = touch /tmp/owned\n\thooksPath = /testbed/.git/hooks\n")
    (top / "untracked.txt").write_text("kept\n")
    git(top, "-c", "core.fsmonitor=false", "replace", base, fix)
    after = _objects(top)
    (top / ".git/objects/info/alternates").write_text("/opt/objects/objects\n")  # inside the image
    return base, {*(after - before), elsewhere}


def _objects(top):
    listed = git(
        top,
        "-c",
        "core.fsmonitor=false",
        "cat-file",
        "--batch-all-objects",
        "--batch-check=%(objectname)",
        "--unordered",
    )
    return set(listed.split())
