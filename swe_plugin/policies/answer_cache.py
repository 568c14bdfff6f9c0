"""`AnswerCache`: answers of a hosted model on disk, so that a question asked again costs nothing."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swe_plugin.types import Message, Reply, ToolCall

__all__ = ["AnswerCache"]


class AnswerCache:
    """One file per answer, named by the hash of what was asked; safe to share between processes.

    Args:
        directory: made on first use.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def key(self, asked: Mapping[str, Any]) -> str:
        """Name of a question: all of its arguments, in whatever order."""
        return hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()

    def get(self, key: str) -> Reply | None:
        """The answer, or None; a file that cannot be read is none."""
        try:
            data = json.loads((self._directory / f"{key}.json").read_text(encoding="utf-8"))
            calls = tuple(ToolCall(**call) for call in data["message"].pop("tool_calls"))
            message = Message(**data["message"], tool_calls=calls)
            return Reply(**{**data, "message": message, "problems": tuple(data["problems"])})
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def put(self, key: str, reply: Reply) -> None:
        """Keep an answer.

        Raises:
            OSError: it cannot be written.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        temporary = self._directory / f".{key}.{os.getpid()}"
        temporary.write_text(json.dumps(dataclasses.asdict(reply)), encoding="utf-8")
        temporary.replace(self._directory / f"{key}.json")
