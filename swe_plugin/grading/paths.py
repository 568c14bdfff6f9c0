"""Which files a patch touches, and how."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Change", "FileChange", "file_changes"]

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_ESCAPE = re.compile(rb"\\([abfnrtv\"\\]|[0-7]{3})")
_ESCAPES = {b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13, b'"': 34, b"\\": 92}


_RENAME = {
    **dict.fromkeys(("rename from", "rename old"), "rename from"),
    **dict.fromkeys(("rename to", "rename new"), "rename to"),
}
"""Words of git, and the older ones that it still reads."""


class Change(StrEnum):
    """What happens to a file."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file of a patch: its path relative to the repository, what happens to it, and which file became it."""

    path: str
    change: Change
    source: str = ""


def file_changes(patch: str) -> list[FileChange]:
    """The files of a patch, in its order (a rename counts as one deleted and one added file).

    Two forms are read, as ``git apply -p1`` does: git's own (git-diff(1), "Generating patch text with -p": extended
    header lines from ``diff --git`` to the first hunk, names that need it quoted as C strings) and plain unified
    diffs, whose files begin at ``---``.
    """
    changes: list[FileChange] = []
    header: list[str] = []
    reading = False  # whether `header` may still grow
    old = new = 0  # lines that the current hunk still has
    for line in patch.split("\n"):
        if old > 0 or new > 0:
            old -= line[:1] in ("-", " ", "")
            new -= line[:1] in ("+", " ", "")
        elif line.startswith("diff --git ") or (line.startswith("--- ") and not _wants_names(header, reading)):
            changes += _changes(header)
            header, reading = [line], True
        elif hunk := _HUNK.match(line):
            old, new = (int(count or "1") for count in hunk.groups())
            reading = False
        elif line.startswith(("GIT binary patch", "Binary files ")):
            reading = False
        elif reading:
            header.append(line)
    return changes + _changes(header)


def _wants_names(header: list[str], reading: bool) -> bool:
    """A header of git's form that has not come to its ``---`` yet."""
    return reading and not any(line.startswith("--- ") for line in header)


def _changes(header: list[str]) -> list[FileChange]:
    if not header:
        return []
    fields = {key: value for line in header for key, value in [_field(line)] if key}
    if "rename to" in fields or "rename from" in fields:
        fields = {"rename from": _name(header[0], {}), "rename to": _name(header[0], {}), **fields}
        gone = FileChange(_unquote(fields["rename from"]), Change.DELETED)
        return [gone, FileChange(_unquote(fields["rename to"]), Change.ADDED, gone.path)]
    change = Change.MODIFIED
    if "new file mode" in fields or "copy to" in fields or fields.get("---", "").startswith("/dev/null"):
        change = Change.ADDED
    elif "deleted file mode" in fields or fields.get("+++", "").startswith("/dev/null"):
        change = Change.DELETED
    return [FileChange(_name(header[0], fields), change)]


def _field(line: str) -> tuple[str, str]:
    for key in ("new file mode", "deleted file mode", *_RENAME, "copy to", "---", "+++"):
        if line.startswith(f"{key} "):
            return _RENAME.get(key, key), line[len(key) + 1 :]
    return "", ""


def _name(first: str, fields: dict[str, str]) -> str:
    if "copy to" in fields:
        return _unquote(fields["copy to"])
    for key in ("+++", "---"):
        # behind a tab stands nothing (git, after a name with spaces) or a time; a tab in a name is quoted
        name = fields.get(key, "/dev/null").partition("\t")[0]
        if name != "/dev/null":
            return _unquote(name).partition("/")[2]
    both = first.removeprefix("diff --git ")  # no rename: the same name twice, behind a/ and b/
    return _unquote(both[: (len(both) - 1) // 2]).partition("/")[2]


def _unquote(name: str) -> str:
    if not (len(name) > 1 and name.startswith('"') and name.endswith('"')):
        return name

    def char(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes([_ESCAPES[code] if code in _ESCAPES else int(code, 8)])

    return _ESCAPE.sub(char, name[1:-1].encode()).decode(errors="surrogateescape")
