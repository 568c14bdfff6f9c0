"""The tools of the bundles, as the model is told of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["command_docs", "schemas"]

_STRING = {"type": "string"}
_PARAMETERS: Mapping[str, tuple[str, Mapping[str, Any], Sequence[str]]] = {
    "bash": (
        "Run a bash command in the repository.",
        {"command": {**_STRING, "description": "The command to run."}},
        ("command",),
    ),
    "submit": ("Hand in the work as it is now.", {}, ()),
    "str_replace_editor": (
        "View, create and edit files. view shows a file with line numbers, or a directory two levels deep; create "
        "makes a new file of file_text; str_replace replaces old_str, which must occur exactly once, by new_str; "
        "insert puts new_str after line insert_line; undo_edit takes the last edit of the file back.",
        {
            "command": {**_STRING, "enum": ["view", "create", "str_replace", "insert", "undo_edit"]},
            "path": {**_STRING, "description": "Absolute path of the file or directory."},
            "file_text": _STRING,
            "old_str": _STRING,
            "new_str": _STRING,
            "insert_line": {"type": "integer"},
            "view_range": {
                "type": "array",
                "items": {"type": "integer"},
                "description": "First and last line; -1: the end.",
            },
        },
        ("command", "path"),
    ),
}


def schemas(names: Iterable[str]) -> list[dict[str, Any]]:
    """JSON schemas in OpenAI's form."""
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": _PARAMETERS[name][0],
                "parameters": {
                    "type": "object",
                    "properties": dict(_PARAMETERS[name][1]),
                    "required": list(_PARAMETERS[name][2]),
                },
            },
        }
        for name in names
    ]


def command_docs(names: Iterable[str]) -> str:
    """The same as text, for ``{{ command_docs }}``: one paragraph per tool."""
    paragraphs = []
    for name in names:
        description, parameters, required = _PARAMETERS[name]
        words = [f"<{p}>" if p in required else f"[--{p} <{p}>]" for p in parameters]
        signature = "<command>" if name == "bash" else " ".join([name, *words])
        paragraphs.append(f"{name}:\n  {description}\n  signature: {signature}")
    return "\n\n".join(paragraphs)
