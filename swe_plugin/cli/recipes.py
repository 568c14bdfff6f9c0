"""`swe-plugin recipes`: what `+plugin=` can select."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import swe_plugin

__all__ = ["Recipe", "find_recipes", "recipe_root"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """One recipe: the word to write after ``+plugin=``, its first comment line, its file."""

    name: str
    summary: str
    path: Path


def recipe_root() -> Path:
    """Folder of the recipes: in the wheel, or in the clone of an editable install.

    Raises:
        FileNotFoundError: neither is there, so the installation is broken.
    """
    package = Path(swe_plugin.__file__).parent
    for root in (package / "_recipes", package.parent / "recipes"):
        if (root / "plugin").is_dir():
            return root
    raise FileNotFoundError(f"no recipes beside {package}: reinstall swe-plugin")


def find_recipes() -> list[Recipe]:
    """All recipes of this installation, `swe` first."""
    folder = recipe_root() / "plugin"
    return [
        Recipe(path.relative_to(folder).with_suffix("").as_posix(), _summary(path), path)
        for path in (folder / "swe.yaml", *sorted((folder / "swe").glob("*.yaml")))
        if path.exists()
    ]


def _summary(path: Path) -> str:
    """First comment that is no Hydra directive."""
    for line in path.read_text(encoding="utf-8").splitlines():
        text = line.lstrip("#").strip()
        if line.startswith("#") and text and not text.startswith("@package"):
            return text
    return ""
