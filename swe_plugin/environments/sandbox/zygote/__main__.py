"""Entry point: ``python -I -S <this file> <control fd> <lease id>``.

The parent packages are replaced by empty modules, so that importing the zygote's modules by their full
names does not run `swe_plugin/__init__.py` and what it imports.
"""

from __future__ import annotations

import sys
import types


def alone() -> None:
    """Make the zygote's modules importable without the packages above them."""
    here = __file__.rpartition("/")[0]
    names = ["swe_plugin", "swe_plugin.environments", "swe_plugin.environments.sandbox"]
    for depth, name in enumerate(names):
        package = types.ModuleType(name)
        package.__path__ = [here.rsplit("/", len(names) - depth)[0]]
        sys.modules[name] = package
    sys.path.insert(0, here.rsplit("/", len(names) + 1)[0])


def _main() -> None:
    alone()
    from swe_plugin.environments.sandbox.zygote.server import serve

    serve(int(sys.argv[1]))


if __name__ == "__main__":
    _main()
