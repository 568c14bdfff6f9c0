"""`Editor`: ``str_replace_editor`` on an environment's files; one per rollout, which remembers what it changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from swe_plugin.environments.base import Environment

__all__ = ["Editor"]

_CONTEXT_LINES = 4
_LIST = 'find "$1" -maxdepth 2 -not -path "*/.*" | sort'


class _Mistake(Exception):
    """The model's; what it is told."""


class Editor:
    """Whatever is wrong with a call is the observation, never an exception of ours.

    Args:
        environment: whose files are edited.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._before: dict[str, list[str]] = {}

    async def run(self, arguments: Mapping[str, Any]) -> str:
        """The observation of one call.

        Raises:
            EnvironmentUnavailable: the environment is dead.
        """
        commands = {
            "view": self._view,
            "create": self._create,
            "str_replace": self._replace,
            "insert": self._insert,
            "undo_edit": self._undo,
        }
        command, path = str(arguments.get("command")), str(arguments.get("path") or "")
        try:
            if command not in commands:
                raise _Mistake(f"unknown command {command!r}; there are {', '.join(commands)}")
            if not path.startswith("/") or "\0" in path:
                raise _Mistake(f"path must be absolute, got {path!r}")
            return await commands[command](path, arguments)
        except (_Mistake, UnicodeError) as mistake:
            return f"Error: {mistake}"
        except ConnectionError:
            raise  # the environment, not the file
        except OSError as error:
            return f"Error: {path}: {error.strerror or error}"

    async def _view(self, path: str, arguments: Mapping[str, Any]) -> str:
        if (await self._environment.exec(["test", "-d", path], cwd="/")).exit_code == 0:
            listing = await self._environment.exec(["bash", "-c", _LIST, "bash", path], cwd="/")
            return f"Files and directories in {path}, two levels deep:\n{listing.stdout}"
        lines = (await self._read(path)).split("\n")
        first, last = 1, len(lines)
        if given := arguments.get("view_range"):
            first, last = _range(given, len(lines))
        return _numbered(lines, first, last)

    async def _create(self, path: str, arguments: Mapping[str, Any]) -> str:
        if (await self._environment.exec(["test", "-e", path], cwd="/")).exit_code == 0:
            raise _Mistake(f"{path} exists already; edit it with str_replace or insert")
        await self._environment.write_file(path, _text(arguments, "file_text").encode())
        return f"Created {path}."

    async def _replace(self, path: str, arguments: Mapping[str, Any]) -> str:
        old, new = _text(arguments, "old_str"), str(arguments.get("new_str") or "")
        text = await self._read(path)
        places = text.count(old) if old else 0
        if places != 1:
            where = "" if places < 2 else f", first in line {text[: text.index(old)].count(chr(10)) + 1}"
            raise _Mistake(f"old_str must occur exactly once in {path}, but occurs {places} times{where}")
        start = text[: text.index(old)].count("\n")
        return await self._write(path, text, text.replace(old, new), start, new.count("\n"))

    async def _insert(self, path: str, arguments: Mapping[str, Any]) -> str:
        text, new = await self._read(path), _text(arguments, "new_str")
        lines = text.split("\n")
        line = _integer(arguments.get("insert_line"), "insert_line")
        if not 0 <= line <= len(lines):
            raise _Mistake(f"insert_line must be within 0 and {len(lines)}, got {line}")
        added = new.removesuffix("\n").split("\n")
        return await self._write(path, text, "\n".join([*lines[:line], *added, *lines[line:]]), line, len(added))

    async def _undo(self, path: str, _: Mapping[str, Any]) -> str:
        if not self._before.get(path):
            raise _Mistake(f"no edit of {path} to take back")
        await self._put(path, self._before[path].pop())
        return f"Took the last edit of {path} back."

    async def _read(self, path: str) -> str:
        return (await self._environment.read_file(path)).decode()

    async def _write(self, path: str, before: str, after: str, line: int, count: int) -> str:
        await self._put(path, after)
        self._before.setdefault(path, []).append(before)
        lines = after.split("\n")
        shown = _numbered(lines, max(1, line + 1 - _CONTEXT_LINES), min(len(lines), line + 1 + count + _CONTEXT_LINES))
        return f"Edited {path}; it now reads:\n{shown}"

    async def _put(self, path: str, text: str) -> None:
        """Write an existing file without changing who may run it."""
        mode = (await self._environment.exec(["stat", "-Lc", "%a", path], cwd="/")).stdout.strip()
        await self._environment.write_file(path, text.encode(), mode=int(mode or "644", 8))


def _numbered(lines: list[str], first: int, last: int) -> str:
    return "\n".join(f"{number:6}\t{lines[number - 1]}" for number in range(first, last + 1))


def _range(given: Any, total: int) -> tuple[int, int]:
    if not isinstance(given, list | tuple) or len(given) != 2:
        raise _Mistake("view_range must be two numbers, the first and the last line")
    first, last = (_integer(value, "view_range") for value in given)
    last = total if last == -1 else last
    if not 1 <= first <= last <= total:
        raise _Mistake(f"view_range must be within 1 and {total}, got {first} to {last}")
    return first, last


def _integer(value: Any, name: str) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise _Mistake(f"{name} must be a number, got {value!r}") from None


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str):
        raise _Mistake(f"{name} is needed")
    return value
