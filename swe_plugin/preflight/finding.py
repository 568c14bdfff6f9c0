"""`Finding`: one thing that was looked at before a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from swe_plugin.errors import ConfigError, PluginError, SwePluginError

__all__ = ["Finding"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, whether it holds, and what to do if it does not.

    Attributes:
        name: what was looked at, for a person.
        ok: whether it holds.
        detail: what was seen.
        key: setting that decides it: a dotted path, an environment variable, ``ulimit -n``; may be empty.
        value: of the setting.
        fix: one sentence that says what to write or do instead; empty where `ok`.
    """

    name: str
    ok: bool
    detail: str = ""
    key: str = ""
    value: Any = None
    fix: str = ""

    @classmethod
    def of(cls, name: str, error: SwePluginError) -> Self:
        """The failing finding that an error stands for."""
        if isinstance(error, ConfigError):
            return cls(name, False, key=error.key, value=error.value, fix=error.fix)
        return cls(name, False, fix=str(error))

    @classmethod
    def attempt(cls, name: str, action: Callable[[], object], detail: str = "") -> Self:
        """What comes of an action that raises errors of ours where something is wrong."""
        try:
            action()
        except SwePluginError as error:
            return cls.of(name, error)
        return cls(name, True, detail)

    @property
    def line(self) -> str:
        """One line: what was seen, or key, value and fix."""
        if self.ok:
            return self.detail
        return str(self.error())

    def error(self) -> ConfigError | PluginError:
        """The error with which a run is refused."""
        fix = " ".join(self.fix.split())
        return ConfigError(self.key, self.value, fix) if self.key else PluginError(fix)

    def to_dict(self) -> dict[str, Any]:
        """For JSON; a value that JSON does not know becomes text."""
        plain = isinstance(self.value, str | int | float | bool | None)
        return dataclasses.asdict(dataclasses.replace(self, value=self.value if plain else str(self.value)))
