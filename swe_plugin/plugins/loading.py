"""Finding and loading plugins: one broken plugin never breaks the tool.

Precedence: built-ins, then entry points of group ``swe_plugin`` in the order of their distributions' names, those of
one distribution in the order of their own. Registration and events follow that order. A name is never overridden: the
second plugin that claims it is refused whole, and the reason names both.

``SWE_PLUGIN_DISABLE=name,name`` skips plugins by distribution or entry point; ``SWE_PLUGIN_TRACE=1`` prints every hook
call, and the traceback of every broken plugin, to stderr.
"""

from __future__ import annotations

import difflib
import inspect
import os
import re
import sys
import traceback
from functools import cache
from importlib.metadata import EntryPoint, entry_points

import pluggy

from swe_plugin import __version__, builtins, hookspecs
from swe_plugin.errors import PluginError
from swe_plugin.plugins.registry import KINDS, Broken, Entry, Plugins, Source, reason

__all__ = ["load_plugins"]


@cache
def load_plugins() -> Plugins:
    """Load built-ins and every installed plugin, once per process.

    A plugin that fails to import or register is kept in `Plugins.broken` with the reason.
    """
    plugins = Plugins(pluggy.PluginManager(hookspecs.PROJECT))
    plugins.manager.add_hookspecs(hookspecs)
    if _tracing():
        plugins.manager.trace.root.setwriter(sys.stderr.write)
        plugins.manager.enable_tracing()
    _add(plugins, builtins, Source("swe-plugin", __version__, "builtins"))
    disabled = os.environ.get("SWE_PLUGIN_DISABLE", "").split(",")
    for source, point in sorted(((_source(p), p) for p in entry_points(group=hookspecs.PROJECT)), key=_precedence):
        if source.is_named(disabled):
            plugins.disabled.append(source)
            continue
        try:
            _add(plugins, point.load(), source)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # also a plugin that calls sys.exit() when it is imported
            plugins.broken.append(Broken(source, reason(error)))
            if _tracing():
                traceback.print_exc()
    return plugins


def _add(plugins: Plugins, plugin: object, source: Source) -> None:
    """Register one plugin and run its registration hooks; nothing of it stays if any of them fails."""
    manager, name = plugins.manager, f"{source.distribution}:{source.entry_point}"
    if manager.is_registered(plugin):
        raise PluginError(f"it points at the same object as {manager.get_name(plugin)}")
    try:
        manager.register(plugin, name=name)
        _check_hooks(manager, plugin)
        added = _registrations(plugins, plugin, source)
    except BaseException:
        if manager.get_plugin(name) is plugin:
            manager.unregister(name=name)
        raise
    plugins.entries.update(added)
    plugins.loaded.append(source)


def _registrations(plugins: Plugins, plugin: object, source: Source) -> dict[tuple[str, str], Entry]:
    added: dict[tuple[str, str], Entry] = {}
    others = [other for _, other in plugins.manager.list_name_plugin() if other is not plugin]
    for kind in KINDS:

        def register(name: str, target: str, *, summary: str = "", kind: str = kind) -> None:
            taken = plugins.entries.get((kind, name)) or added.get((kind, name))
            if taken is not None:
                raise PluginError(f"{kind[:-1]} {name!r} is claimed by {taken.distribution} and {source.distribution}")
            if not re.fullmatch(r"[\w.]+:\w+", target):
                raise PluginError(f"{kind[:-1]} {name!r}: target {target!r} is not of the form package.module:Class")
            added[kind, name] = Entry(kind, name, target, summary, source.distribution, source.version)

        plugins.manager.subset_hook_caller(f"swe_register_{kind}", remove_plugins=others)(register=register)
    return added


def _check_hooks(manager: pluggy.PluginManager, plugin: object) -> None:
    """Refuse what pluggy would pass over in silence: no hook at all, a misspelt one, one that nobody awaits."""
    callers = manager.get_hookcallers(plugin) or []
    if not callers:
        raise PluginError("it has no hook: mark its functions with swe_plugin.hookspecs.hookimpl")
    for caller in callers:
        own = [impl for impl in caller.get_hookimpls() if impl.plugin is plugin]
        if not caller.has_spec() and not all(impl.optionalhook for impl in own):
            near = difflib.get_close_matches(caller.name, [n for n in vars(hookspecs) if n.startswith("swe_")], n=1)
            raise PluginError(f"unknown hook {caller.name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        if any(inspect.iscoroutinefunction(impl.function) for impl in own):
            raise PluginError(f"hook {caller.name!r} is a coroutine function: hooks are called, never awaited")


def _source(point: EntryPoint) -> Source:
    assert point.dist is not None  # entry points come from installed distributions
    return Source(point.dist.name, point.dist.version, point.name)


def _precedence(item: tuple[Source, EntryPoint]) -> tuple[str, str]:
    return item[0].normal_name, item[0].entry_point


def _tracing() -> bool:
    return bool(os.environ.get("SWE_PLUGIN_TRACE"))
