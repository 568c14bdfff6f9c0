"""A patch the other way round."""

from __future__ import annotations

import re

__all__ = ["reverse_patch"]

_HUNK = re.compile(r"@@ -(\S+) \+(\S+) @@(.*)", re.DOTALL)
_SWAPPED = {
    "new file mode": "deleted file mode",
    "deleted file mode": "new file mode",
    "old mode": "new mode",
    "new mode": "old mode",
    "rename from": "rename to",
    "rename to": "rename from",
}


def reverse_patch(patch: str) -> str:
    """The unified diff that undoes `patch` (text only): what ``git apply -R`` would do, as a patch to be applied."""
    lines: list[str] = []
    old = new = 0  # lines that the current hunk still has
    for line in patch.splitlines(keepends=True):
        if old > 0 or new > 0:
            old -= line[0] in "- \n"
            new -= line[0] in "+ \n"
            lines.append({"-": "+", "+": "-"}.get(line[0], line[0]) + line[1:])
        elif hunk := _HUNK.match(line):
            old, new = (int(part.partition(",")[2] or 1) for part in hunk.group(1, 2))
            lines.append(f"@@ -{hunk[2]} +{hunk[1]} @@{hunk[3]}")
        else:
            lines.append(_header(line))
        if lines[-1].startswith("--- ") and len(lines) > 1 and lines[-2].startswith("+++ "):
            lines[-2:] = [lines[-1], lines[-2]]
    return "".join(lines)


def _header(line: str) -> str:
    if line.startswith("--- "):
        return "+++ " + _other_side(line[4:])
    if line.startswith("+++ "):
        return "--- " + _other_side(line[4:])
    for word, other in _SWAPPED.items():
        if line.startswith(f"{word} "):
            return other + line[len(word) :]
    if index := re.fullmatch(r"index (\w+)\.\.(\w+)(.*)", line, re.DOTALL):
        return f"index {index[2]}..{index[1]}{index[3]}"
    return line


def _other_side(name: str) -> str:
    return {"a/": "b/", "b/": "a/"}.get(name[:2], name[:2]) + name[2:]
