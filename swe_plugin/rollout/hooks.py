"""Event hooks: every plugin hears of a rollout, and none can harm it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pluggy

__all__ = ["notify"]

logger = logging.getLogger(__name__)


def notify(manager: pluggy.PluginManager, hook: str, **arguments: object) -> None:
    """Call ``hook`` of each plugin by itself, so that one that raises is logged and the others still hear it.

    Hooks run on the event loop: they must return at once.
    """
    plugins = [plugin for _, plugin in manager.list_name_plugin() if plugin is not None]
    listening = {id(impl.plugin) for impl in getattr(manager.hook, hook).get_hookimpls()}
    for plugin in plugins:
        if id(plugin) not in listening:
            continue
        try:
            manager.subset_hook_caller(hook, [other for other in plugins if other is not plugin])(**arguments)
        except (Exception, SystemExit):
            logger.exception("%s: the hook of plugin %s failed", hook, manager.get_name(plugin))
