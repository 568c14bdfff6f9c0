"""Script files of `swe-plugin try --policy scripted`."""

from __future__ import annotations

from pathlib import Path

import yaml

from swe_plugin.errors import ConfigError
from swe_plugin.scaffolds.parsers import SUBMIT, write_action
from swe_plugin.types import Message

__all__ = ["read_script"]

_KEY = "--script"


def read_script(path: Path, form: str) -> list[Message]:
    """The answers of a YAML or JSON file: a list of commands, ``{commands: [...]}`` or ``{answers: [...]}``.

    Commands are written as the agent would (and submitted after the last one); answers are taken word for word.

    Args:
        path: the file.
        form: ``swe.scaffold.action``.

    Raises:
        ConfigError: it cannot be read or is something else; says which item.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(_KEY, str(path), f"cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(_KEY, str(path), f"no YAML or JSON: {' '.join(str(error).split())}") from error
    if isinstance(content, list):
        content = {"commands": content}
    if not isinstance(content, dict) or len(content) != 1 or not content.keys() <= {"commands", "answers"}:
        raise ConfigError(_KEY, str(path), "must be a list of commands, {commands: [...]} or {answers: [...]}")
    ((kind, items),) = content.items()
    if not isinstance(items, list) or not items:
        raise ConfigError(_KEY, str(path), f"{kind} must be a list with at least one item")
    for number, item in enumerate(items, start=1):
        if not isinstance(item, str):
            raise ConfigError(_KEY, str(path), f"{kind}, item {number}: {item!r} must be a text in quotes")
    if kind == "answers":
        return [Message("assistant", item) for item in items]
    commands = items if items[-1].strip() == SUBMIT else [*items, SUBMIT]
    return [write_action(command, form, call_id=f"call_{number}") for number, command in enumerate(commands)]
