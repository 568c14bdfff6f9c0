"""`read_conversations`: any file or directory of trajectories."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from swe_plugin.trajectories.formats.atif import is_atif, read_atif
from swe_plugin.trajectories.formats.conversation import Conversation
from swe_plugin.trajectories.formats.messages import is_messages, read_messages
from swe_plugin.trajectories.formats.mini_swe_agent import is_mini_swe_agent, read_mini_swe_agent
from swe_plugin.trajectories.formats.records import read_records
from swe_plugin.trajectories.formats.swe_agent import is_swe_agent, read_swe_agent

__all__ = ["FORMATS", "read_conversations"]

FORMATS: Mapping[str, tuple[Callable[[Any], bool], Callable[[Any, str], Conversation]]] = {
    "swe-agent": (is_swe_agent, read_swe_agent),
    "mini-swe-agent": (is_mini_swe_agent, read_mini_swe_agent),
    "atif": (is_atif, read_atif),
    "messages": (is_messages, read_messages),
}
"""Formats of files, most particular first: is it this one, and how it is read."""

_SUFFIXES = (".traj", ".json", ".jsonl")


def read_conversations(path: Path) -> Iterator[Conversation]:
    """Every trajectory at `path`: a file, a directory of files, or a directory of our own records.

    Raises:
        FileNotFoundError: nothing there.
        ValueError: a file of no known format; says which, and which place in it.
    """
    if path.is_dir():
        if (path / "trajectory.json").exists() or any(path.glob("step_*")):
            yield from read_records(path)
            return
        files = sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES)
        if not files:
            raise FileNotFoundError(f"{path}: no file that ends with {', '.join(_SUFFIXES)}")
        for file in files:
            yield from read_conversations(file)
        return
    if path.suffix == ".jsonl":
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.strip():
                yield _read(line, f"{path}:{number}", f"{path.stem}-{number}")
    else:
        yield _read(path.read_text(encoding="utf-8"), str(path), path.stem)


def _read(text: str, where: str, name: str) -> Conversation:
    try:
        data = json.loads(text)
        for recognises, read in FORMATS.values():
            if recognises(data):
                return read(data, name)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{where}: {type(error).__name__}: {error}") from error
    raise ValueError(f"{where}: none of the formats {', '.join(FORMATS)}")
