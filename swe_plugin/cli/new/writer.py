"""`write_package`: a distribution that registers one thing, with tests that pass."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

from swe_plugin.errors import ConfigError

__all__ = ["KINDS", "write_package"]

_TEXTS = Path(__file__).parent
KINDS = {"scaffold": "scaffolds", "backend": "environments", "dataset": "datasets"}
"""Kind -> what it registers as."""


def write_package(kind: str, name: str, folder: Path) -> list[Path]:
    """Write a distribution ``swe-plugin-<name>`` into `folder`, which is made.

    Args:
        kind: one of `KINDS`.
        name: lower-case words joined by hyphens.
        folder: where to; must not exist, or be empty.

    Returns:
        The files, sorted.

    Raises:
        ConfigError: an unknown kind, a name that is none, or something is in the folder.
    """
    if kind not in KINDS:
        raise ConfigError("KIND", kind, f"there are {', '.join(KINDS)}")
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise ConfigError("NAME", name, "must be lower-case letters and digits, words joined by hyphens, e.g. my-agent")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError("--out", str(folder), "is not empty; name another one")
    registered = name.replace("-", "_")
    words = {
        "distribution": f"swe-plugin-{name}",
        "package": f"swe_plugin_{registered}",
        "name": registered,
        "Class": "".join(word.capitalize() for word in name.split("-")),
        "kind": kind,
    }
    written = []
    for source in (*_TEXTS.glob("common/**/*.txt"), *_TEXTS.glob(f"{kind}/**/*.txt")):
        path = source.relative_to(_TEXTS).with_suffix("")
        target = folder.joinpath(*(words["package"] if part == "package" else part for part in path.parts[1:]))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(Template(source.read_text(encoding="utf-8")).substitute(words), encoding="utf-8")
        written.append(target)
    return sorted(written)
