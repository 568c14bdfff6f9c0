"""Tiny distributions, installed as pip leaves them: modules and a dist-info directory in a folder on the path."""

from __future__ import annotations

import textwrap
from pathlib import Path

BACKEND = """
from swe_plugin.hookspecs import hookimpl

@hookimpl
def swe_register_environments(register):
    register({name!r}, {target!r}, summary="a test backend")
"""


def backend(name: str, target: str = "swe_plugin.environments.dummy:DummyEnvironment") -> str:
    """Source of a plugin that registers one backend."""
    return BACKEND.format(name=name, target=target)


def install(folder: Path, name: str, source: str, *, version: str = "1.0", entry_points: str = "") -> None:
    """Put a distribution of one module into `folder`.

    Args:
        name: of the distribution; its module has underscores for hyphens.
        source: of the module.
        entry_points: lines ``name = module[:object]`` of group ``swe_plugin``; default one, named like the module.
    """
    module = name.replace("-", "_")
    (folder / f"{module}.py").write_text(textwrap.dedent(source))
    info = folder / f"{module}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[swe_plugin]\n{entry_points or f'{module} = {module}'}\n")
