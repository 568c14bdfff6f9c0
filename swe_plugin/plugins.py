"""Finding and loading plugins, and looking names up: one broken plugin never breaks the tool.

Precedence: built-ins first, then entry points of group ``swe_plugin`` by distribution name. Two plugins
that claim one name are an error that names both. ``SWE_PLUGIN_DISABLE=dist-a,dist-b`` skips plugins,
``SWE_PLUGIN_TRACE=1`` prints every hook call to stderr.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import Any

import pluggy

from swe_plugin import builtins, hookspecs
from swe_plugin.errors import ConfigError, PluginError

__all__ = ["KINDS", "Broken", "Entry", "Plugins", "load_plugins"]

KINDS = ("environments", "scaffolds", "graders", "datasets", "renderers", "commands")


@dataclass(frozen=True, slots=True)
class Entry:
    """One registered name: what it points at and the distribution that registered it."""

    kind: str
    name: str
    target: str
    summary: str
    distribution: str


@dataclass(frozen=True, slots=True)
class Broken:
    """A plugin that could not be loaded: its distribution and the reason."""

    distribution: str
    reason: str


@dataclass(slots=True)
class Plugins:
    """All registered names, and the pluggy manager for the event hooks."""

    manager: pluggy.PluginManager
    entries: dict[tuple[str, str], Entry] = field(default_factory=dict)
    broken: list[Broken] = field(default_factory=list)

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
            PluginError: registered, but its target cannot be imported.
        """
        entry = self.entries.get((kind, name))
        if entry is None:
            raise ConfigError(key, name, self._unknown(kind, name))
        module, _, attribute = entry.target.partition(":")
        try:
            return getattr(importlib.import_module(module), attribute)
        except Exception as error:
            where = f"{kind[:-1]} {name!r} of {entry.distribution}"
            raise PluginError(f"{where}: cannot import {entry.target}: {type(error).__name__}: {error}") from error

    def require(self, distributions: list[str]) -> None:
        """Stop unless each of the named plugins is loaded.

        Raises:
            PluginError: one is broken or not installed.
        """
        loaded = {name for name, _ in self.manager.list_name_plugin()}
        reasons = {item.distribution: item.reason for item in self.broken}
        for name in distributions:
            if name not in loaded:
                raise PluginError(f"swe.plugins: {name!r} is {reasons.get(name, 'not installed')}")

    def _unknown(self, kind: str, name: str) -> str:
        known = [f"{e.name} ({e.distribution})" for e in self.entries.values() if e.kind == kind]
        near = difflib.get_close_matches(name, self.names(kind), n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        broken = "".join(f"; {b.distribution} is broken: {b.reason}" for b in self.broken)
        return f"{hint}registered {kind}: {', '.join(known) or 'none'}{broken}"


def _collect(plugins: Plugins, plugin: object, distribution: str) -> None:
    """Register one plugin and run its registration hooks; nothing of it stays if any of them fails."""
    added: dict[tuple[str, str], Entry] = {}
    plugins.manager.register(plugin, name=distribution)
    others = [p for _, p in plugins.manager.list_name_plugin() if p is not plugin]
    for kind in KINDS:

        def register(name: str, target: str, *, summary: str = "", kind: str = kind) -> None:
            taken = plugins.entries.get((kind, name)) or added.get((kind, name))
            if taken is not None:
                raise PluginError(f"{kind[:-1]} {name!r} is claimed by {taken.distribution} and {distribution}")
            added[kind, name] = Entry(kind, name, target, summary, distribution)

        caller = plugins.manager.subset_hook_caller(f"swe_register_{kind}", remove_plugins=others)
        caller(register=register)
    plugins.manager.check_pending()
    plugins.entries.update(added)


@cache
def load_plugins() -> Plugins:
    """Load built-ins and every installed plugin, once per process.

    A plugin that fails to import or register is kept in `Plugins.broken` with the reason.
    """
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    if os.environ.get("SWE_PLUGIN_TRACE"):
        manager.trace.root.setwriter(lambda text: sys.stderr.write(text))
        manager.enable_tracing()
    plugins = Plugins(manager)
    _collect(plugins, builtins, "swe-plugin")
    disabled = {name.strip() for name in os.environ.get("SWE_PLUGIN_DISABLE", "").split(",")}
    points = sorted(entry_points(group=hookspecs.PROJECT), key=lambda p: p.dist.name if p.dist else p.name)
    for point in points:
        distribution = point.dist.name if point.dist else point.name
        if distribution in disabled or point.name in disabled:
            continue
        plugin: object | None = None
        try:
            plugin = point.load()
            _collect(plugins, plugin, distribution)
        except Exception as error:
            if plugin is not None and manager.is_registered(plugin):
                manager.unregister(plugin)
            plugins.broken.append(Broken(distribution, f"broken: {type(error).__name__}: {error}"))
    return plugins
