"""Settings of pytest in files that hold other things as well, so that a patch may change the file, but not these."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from swe_plugin.grading.paths import FileChange

if TYPE_CHECKING:
    from swe_plugin.environments.base import Environment

__all__ = ["PytestSettings"]

_TOML, _INI = "pyproject.toml", "setup.cfg"


class PytestSettings:
    """What the project files of a work directory say to pytest, before and after a patch.

    Args:
        environment: with the work directory, before the patch.
        changes: of the patch.
    """

    def __init__(self, environment: Environment, changes: Iterable[FileChange]) -> None:
        self._environment = environment
        self._paths = [item.path for item in changes if PurePosixPath(item.path).name in (_TOML, _INI)]
        self._before: dict[str, bytes | None] = {}

    async def remember(self) -> None:
        """To be called before the patch is applied."""
        self._before = {path: await self._read(path) for path in self._paths}

    async def restore(self) -> bool:
        """Put back, as a whole, each file in which the patch changed them; whether there was one."""
        restored = False
        for path, before in self._before.items():
            after = await self._read(path)
            if _settings(path, before) == _settings(path, after):
                continue
            restored = True
            if before is None:
                await self._environment.exec(["rm", "-f", "--", path])
            else:
                await self._environment.write_file(self._full(path), before)
        return restored

    async def _read(self, path: str) -> bytes | None:
        try:
            return await self._environment.read_file(self._full(path))
        except FileNotFoundError:
            return None

    def _full(self, path: str) -> str:
        return str(PurePosixPath(self._environment.spec.image.workdir) / path)


def _settings(path: str, content: bytes | None) -> Any:
    """Of one file, entry points that load plugins included; the bytes themselves if they cannot be read."""
    text = (content or b"").decode(errors="replace")
    try:
        return _of_toml(tomllib.loads(text)) if PurePosixPath(path).name == _TOML else _of_ini(text)
    except (tomllib.TOMLDecodeError, ConfigParserError):
        return content


def _of_toml(table: Any) -> list[Any]:
    places = (("tool", "pytest"), ("project", "entry-points", "pytest11"), ("tool", "poetry", "plugins", "pytest11"))
    found = []
    for place in places:
        value = table
        for key in place:
            value = value.get(key) if isinstance(value, dict) else None
        found.append(value)
    return found


def _of_ini(text: str) -> list[Any]:
    parser = ConfigParser(strict=False, interpolation=None)
    parser.read_string(text)
    sections = [dict(parser[name]) if parser.has_section(name) else None for name in ("tool:pytest", "pytest")]
    return [*sections, parser.get("options.entry_points", "pytest11", fallback=None)]
