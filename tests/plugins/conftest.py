"""A folder for distributions that is on the path for one test."""

import importlib
import sys

import pytest

from swe_plugin.plugins import load_plugins

from .distributions import install


class Site:
    """`site.add(...)` installs, `site.load()` loads what is installed by then."""

    def __init__(self, folder):
        self.folder = folder

    def add(self, name, source, **more):
        install(self.folder, name, source, **more)
        return self

    def load(self):
        importlib.invalidate_caches()
        load_plugins.cache_clear()
        return load_plugins()


@pytest.fixture
def site(tmp_path, monkeypatch):
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Site(tmp_path)
    load_plugins.cache_clear()
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
