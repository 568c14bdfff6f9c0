"""Built-ins and third-party plugins: loaded one by one, looked up by name."""

from swe_plugin.plugins.loading import load_plugins
from swe_plugin.plugins.registry import KINDS, Broken, Entry, Plugins, Source

__all__ = ["KINDS", "Broken", "Entry", "Plugins", "Source", "load_plugins"]
