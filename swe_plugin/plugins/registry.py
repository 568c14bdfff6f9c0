"""What is registered by whom, and looking names up."""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pluggy

from swe_plugin.errors import ConfigError, PluginError

__all__ = ["KINDS", "Broken", "Entry", "Plugins", "Source", "reason"]

KINDS = ("environments", "scaffolds", "graders", "datasets", "renderers", "commands")
"""What can be registered; each has a hook ``swe_register_<kind>``."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a plugin comes from: one entry point of one installed distribution."""

    distribution: str
    version: str
    entry_point: str

    def __str__(self) -> str:
        return f"{self.distribution} {self.version} (entry point {self.entry_point})"

    @property
    def normal_name(self) -> str:
        """The distribution's name in the one spelling that stands for all (PEP 503)."""
        return _normal(self.distribution)

    def is_named(self, names: Iterable[str]) -> bool:
        """Whether one of `names` is its distribution (spelt in any way that pip takes) or its entry point."""
        return bool({_normal(name) for name in names} & {self.normal_name, _normal(self.entry_point)})


@dataclass(frozen=True, slots=True)
class Entry:
    """One registered name: what it points at and the distribution that registered it."""

    kind: str
    name: str
    target: str
    summary: str
    distribution: str
    version: str = ""


@dataclass(frozen=True, slots=True)
class Broken:
    """A plugin that could not be loaded, and why."""

    source: Source
    reason: str

    @property
    def distribution(self) -> str:
        """The distribution that has to be repaired or removed."""
        return self.source.distribution

    def __str__(self) -> str:
        return f"{self.source} is broken: {self.reason}"


@dataclass(slots=True)
class Plugins:
    """All registered names, and the pluggy manager for the event hooks.

    Attributes:
        manager: pluggy's; the built-ins and every plugin that is not broken are registered with it.
        entries: by kind and name, in order of registration.
        loaded, broken, disabled: what became of each entry point.
    """

    manager: pluggy.PluginManager
    entries: dict[tuple[str, str], Entry] = field(default_factory=dict)
    loaded: list[Source] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    disabled: list[Source] = field(default_factory=list)

    def names(self, kind: str) -> list[str]:
        """Registered names of one kind, in order of registration."""
        return [entry.name for entry in self.entries.values() if entry.kind == kind]

    def load(self, kind: str, name: str, key: str) -> Any:
        """Import the object registered as `name`.

        Args:
            kind: one of `KINDS`.
            name: the registered name.
            key: configuration key that holds the name, for the error.

        Raises:
            ConfigError: not registered; says what is, and from where.
            PluginError: registered, but its target cannot be imported, or is a class that leaves methods out.
        """
        entry = self.entries.get((kind, name))
        if entry is None:
            raise ConfigError(key, name, self._unknown(kind, name))
        where = f"{kind[:-1]} {name!r} of {entry.distribution}"
        module, _, attribute = entry.target.partition(":")
        try:
            found = getattr(importlib.import_module(module), attribute)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise PluginError(f"{where}: cannot import {entry.target}: {reason(error)}") from error
        if inspect.isabstract(found):
            missing = ", ".join(sorted(found.__abstractmethods__))
            raise PluginError(f"{where}: {entry.target} does not implement {missing}")
        return found

    def require(self, names: list[str]) -> None:
        """Stop unless each of the named plugins (distributions or entry points) is loaded.

        Raises:
            PluginError: one is broken, disabled or not installed.
        """
        for name in names:
            for item in self.broken:
                if item.source.is_named([name]):
                    raise PluginError(f"swe.plugins: {item}")
            if any(source.is_named([name]) for source in self.disabled):
                raise PluginError(f"swe.plugins: {name!r} is disabled by SWE_PLUGIN_DISABLE")
            if not any(source.is_named([name]) for source in self.loaded):
                known = ", ".join(source.distribution for source in self.loaded)
                raise PluginError(f"swe.plugins: {name!r} is not installed; installed plugins: {known}")

    def _unknown(self, kind: str, name: str) -> str:
        known = [f"{e.name} ({e.distribution})" for e in self.entries.values() if e.kind == kind]
        near = difflib.get_close_matches(name, self.names(kind), n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        broken = "".join(f"; {item}" for item in self.broken)
        disabled = "".join(f"; {source} is disabled" for source in self.disabled)
        return f"{hint}registered {kind}: {', '.join(known) or 'none'}{broken}{disabled}"


def reason(error: BaseException) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _normal(name: str) -> str:
    """PEP 503: one spelling for all that pip takes for the same distribution."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()
