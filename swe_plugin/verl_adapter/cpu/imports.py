"""Run a function right after a module is imported, so that a patch costs nothing where it is not used."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

__all__ = ["when_imported"]

_waiting: dict[str, list[Callable[[ModuleType], None]]] = {}


def when_imported(name: str, function: Callable[[ModuleType], None]) -> None:
    """Call `function` with module `name`: at once if it is loaded, else as soon as it is."""
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        function(module)
        return
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    _waiting.setdefault(name, []).append(function)


class _Loader(importlib.abc.Loader):
    """The real loader, followed by the functions that wait for the module."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        assert spec is not None
        spec.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        for function in _waiting.pop(module.__name__, []):
            function(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds nothing itself: wraps the loader that the other finders give for a module that is waited for."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _waiting:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: importlib.machinery.ModuleSpec | None = find(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader)
                return spec
        return None
