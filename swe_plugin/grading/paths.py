"""Which files a patch touches, and how."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Change", "FileChange", "file_changes"]

_ESCAPE = re.compile(rb"\\([abfnrtv\"\\]|[0-7]{3})")
_ESCAPES = {b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13, b'"': 34, b"\\": 92}


class Change(StrEnum):
    """What happens to a file."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file of a patch: its path relative to the repository, and what happens to it."""

    path: str
    change: Change


def file_changes(patch: str) -> list[FileChange]:
    """The files of a patch in git's form, in its order (a rename counts as one deleted and one added file).

    The format is that of git-diff(1), "Generating patch text with -p": extended header lines between ``diff --git``
    and the first hunk; names that need it are quoted as C strings.
    """
    changes: list[FileChange] = []
    header: list[str] = []
    inside = False
    for line in patch.split("\n"):
        if line.startswith("diff --git "):
            changes += _changes(header)
            header, inside = [line], True
        elif inside and line.startswith(("@@ ", "GIT binary patch", "Binary files ")):
            inside = False
        elif inside:
            header.append(line)
    return changes + _changes(header)


def _changes(header: list[str]) -> list[FileChange]:
    if not header:
        return []
    fields = {key: value for line in header[1:] for key, value in [_field(line)] if key}
    if "rename to" in fields:
        gone = FileChange(_unquote(fields["rename from"]), Change.DELETED)
        return [gone, FileChange(_unquote(fields["rename to"]), Change.ADDED)]
    change = Change.MODIFIED
    if "new file mode" in fields or "copy to" in fields:
        change = Change.ADDED
    elif "deleted file mode" in fields:
        change = Change.DELETED
    return [FileChange(_name(header[0], fields), change)]


def _field(line: str) -> tuple[str, str]:
    for key in ("new file mode", "deleted file mode", "rename from", "rename to", "copy to", "---", "+++"):
        if line.startswith(f"{key} "):
            return key, line[len(key) + 1 :]
    return "", ""


def _name(first: str, fields: dict[str, str]) -> str:
    if "copy to" in fields:
        return _unquote(fields["copy to"])
    for key in ("+++", "---"):
        # git puts a tab after a name with spaces in these two lines
        if fields.get(key, "/dev/null") != "/dev/null":
            return _unquote(fields[key].removesuffix("\t")).partition("/")[2]
    both = first.removeprefix("diff --git ")  # no rename: the same name twice, behind a/ and b/
    return _unquote(both[: (len(both) - 1) // 2]).partition("/")[2]


def _unquote(name: str) -> str:
    if not (len(name) > 1 and name.startswith('"') and name.endswith('"')):
        return name

    def char(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes([_ESCAPES[code] if code in _ESCAPES else int(code, 8)])

    return _ESCAPE.sub(char, name[1:-1].encode()).decode(errors="surrogateescape")
