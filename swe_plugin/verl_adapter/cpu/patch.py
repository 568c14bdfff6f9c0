"""What a change of verl's behaviour has to say about itself."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Patch", "package_source"]


def package_source(module: str) -> str:
    """Source text of a module, read without importing it.

    Args:
        module: dotted name below an installed top-level package, e.g. ``verl.utils.distributed``.

    Raises:
        ModuleNotFoundError: the package or the file does not exist.
    """
    top, *below = module.split(".")
    spec = importlib.util.find_spec(top)
    for directory in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(directory).joinpath(*below)
        for candidate in (path.with_suffix(".py"), path / "__init__.py"):
            if candidate.is_file():
                return candidate.read_text(encoding="utf-8")
    raise ModuleNotFoundError(module)


@dataclass(frozen=True, slots=True)
class Patch:
    """One replacement inside one module of verl, made right after that module is imported."""

    module: str
    """Module that is changed."""
    line: str
    """The code in that module that does not work, or is needlessly slow, on a CPU."""
    why: str
    """What happens without the patch."""
    apply: Callable[[Any], None]
    """Changes the imported module."""

    def needed(self) -> bool:
        """Whether the installed verl still has the line."""
        return self.line in package_source(self.module)
