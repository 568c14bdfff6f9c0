"""Trees with everything odd that git can hold, ways to change them, and their exact contents."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

from hypothesis import strategies as st

from grading.local import GIT

PATHS = (
    "plain.txt", "no newline", "crlf.txt", "latin1.txt", "data.bin", "run.sh", "empty", "link", "dir/a", "dir/b",
    "dir/sub/c", "dir", "dir/sub", "link/under", "new.txt", "new dir/with space", "tab\there", "line\nbreak", 'quo"te',
    "back\\slash", "-dash", "glob*[x]?.py", "é/ü.txt", "ignored/tracked", "EOF", "a/b/c/d", ".gitattributes",
)  # fmt: skip


def build(root: Path) -> None:
    """Fill `root` with the baseline and commit it."""
    files = {
        "plain.txt": b"one\ntwo\nthree\nfour\nfive\n",
        "no newline": b"one\ntwo",
        "crlf.txt": b"one\r\ntwo\r\nmixed\nend\r\n",
        "latin1.txt": b"caf\xe9\nna\xefve\n",
        "data.bin": bytes(range(256)) * 4,
        "run.sh": b"#!/bin/sh\necho $Id$\n",
        "empty": b"",
        "dir/a": b"a\n",
        "dir/b": b"b\n",
        "dir/sub/c": b"c\n",
        "ignored/tracked": b"kept although ignored\n",
        ".gitignore": b"ignored/\n",
        ".gitattributes": b"* text=auto ident\n*.txt eol=crlf\n*.bin -text diff=evil\n",
    }
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("dir")
    for command in (["init", "-q"], ["add", "-A"], ["add", "-f", "ignored"], ["commit", "-q", "-m", "base"]):
        subprocess.run([*GIT, *command], cwd=root, check=True, capture_output=True)


def snapshot(root: Path) -> dict[str, tuple[str, bytes]]:
    """Path -> (kind, content) of everything but the top ``.git``: what git can express of a tree."""
    found: dict[str, tuple[str, bytes]] = {}
    for top, dirs, names in os.walk(root):
        if Path(top) == root:
            dirs.remove(".git") if ".git" in dirs else None
        for name in [*names, *(d for d in dirs if (Path(top) / d).is_symlink())]:
            path = Path(top) / name
            key = str(path.relative_to(root))
            if path.is_symlink():
                found[key] = ("link", os.fsencode(path.readlink()))
            else:
                executable = bool(path.stat().st_mode & stat.S_IXUSR)
                found[key] = ("executable" if executable else "file", path.read_bytes())
    return found


def clear(path: Path) -> None:
    """Remove whatever is at `path`, and whatever is no directory above it."""
    for part in [*reversed(path.parents), path]:
        if part.is_symlink() or part.is_file():
            part.unlink()
            return
    if path.is_dir():
        shutil.rmtree(path)


class Write:
    def __init__(self, path: str, content: bytes, executable: bool) -> None:
        self.path, self.content, self.executable = path, content, executable

    def __call__(self, root: Path) -> None:
        clear(root / self.path)
        (root / self.path).parent.mkdir(parents=True, exist_ok=True)
        (root / self.path).write_bytes(self.content)
        (root / self.path).chmod(0o755 if self.executable else 0o644)

    def __repr__(self) -> str:
        return f"Write({self.path!r}, {self.content!r}, {self.executable})"


class Edit(Write):
    """Append to, or cut from, what is there."""

    def __call__(self, root: Path) -> None:
        path = root / self.path
        if path.is_symlink() or not path.is_file():
            return super().__call__(root)
        old = path.read_bytes()
        path.write_bytes(old[: len(old) // 2] + self.content if self.executable else old + self.content)
        return None


class Link(Write):
    def __call__(self, root: Path) -> None:
        clear(root / self.path)
        (root / self.path).parent.mkdir(parents=True, exist_ok=True)
        (root / self.path).symlink_to("dir/a" if self.executable else "../outside")


class Delete(Write):
    def __call__(self, root: Path) -> None:
        if not (root / self.path).parent.is_symlink():
            clear(root / self.path)


class Script:
    """Something an agent does to git, which must not matter."""

    def __init__(self, script: str) -> None:
        self.script = script

    def __call__(self, root: Path) -> None:
        subprocess.run(["bash", "-c", self.script], cwd=root, capture_output=True, check=False)

    def __repr__(self) -> str:
        return f"Script({self.script!r})"


_COMMIT = " ".join(GIT) + " commit -qam work"
GIT_SCRIPTS = (
    "git add -A; " + _COMMIT,
    _COMMIT + "; git branch -m other; git gc -q --prune=now",
    "git config core.autocrlf true; git config core.filemode false; git config diff.noprefix true",
    "rm -rf .git",
    "rm -rf .git; git init -q; git add -A",
    "printf '* -diff filter=x\\n' > .git/info/attributes; git config filter.x.clean 'tr a-z A-Z'",
    "echo '*' > .git/info/exclude; git update-index --assume-unchanged plain.txt",
    "git config core.fsmonitor 'touch ../fsmonitor-ran'; git config core.hooksPath .; git rm -rq --cached .",
    "git config diff.evil.textconv 'echo forged'; git config diff.external 'echo forged'",
    "git replace $(git hash-object -w dir/b) $(git hash-object -w dir/a)",
    "echo garbage > .git/HEAD; echo garbage > .git/config; rm -rf .git/objects",
    "git stash -q -u",
)

_contents = st.one_of(
    st.binary(max_size=40),
    st.lists(st.sampled_from([b"one", b"two\r", b"", b"\t x ", b"EOF", b"+++ b/x", b"diff --git a/x b/x", b"\xff"]))
    .map(b"\n".join),
    st.text(max_size=20).map(lambda text: text.encode(errors="replace")),
)  # fmt: skip
_arguments = (st.sampled_from(PATHS), _contents, st.booleans())
changes = st.lists(
    st.one_of(
        st.builds(Write, *_arguments),
        st.builds(Edit, *_arguments),
        st.builds(Link, *_arguments),
        st.builds(Delete, *_arguments),
        st.builds(Script, st.sampled_from(GIT_SCRIPTS)),
    ),
    min_size=1,
    max_size=8,
)
