"""What decides the results of an evaluation: two runs into one directory must agree on it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swe_plugin.errors import ConfigError

if TYPE_CHECKING:
    from swe_plugin.config import SweConfig

__all__ = ["deciding", "keep_settings"]

_FILE = "settings.json"


def deciding(config: SweConfig, **words: object) -> dict[str, Any]:
    """The settings that decide results; how many run at once, and how failures are retried, do not.

    Args:
        config: the ``swe:`` section.
        words: of the command, e.g. dataset, policy and seed.
    """
    sections = {name: dataclasses.asdict(getattr(config, name)) for name in ("environment", "scaffold", "grading")}
    ours = {
        "environment": ("start_timeout_s", "image_timeout_s", "setup_timeout_s"),
        "grading": ("cache", "max_attempts", "overhead_s"),
    }
    for section, names in ours.items():
        for name in names:
            del sections[section][name]
    policy = {"max_turn_tokens": config.policy.max_turn_tokens, "litellm": dict(config.policy.litellm)}
    return {**words, "swe": {**sections, "policy": policy, "demo": {"seed": config.demo.seed}}}


def keep_settings(directory: Path, settings: Mapping[str, Any]) -> None:
    """Write the settings of a first run; compare those of any other.

    Raises:
        ConfigError: they differ; names the first setting that does, with both values.
        OSError: they cannot be written.
    """
    path, wanted = directory / _FILE, json.loads(json.dumps(settings))
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(wanted, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        partial.replace(path)
        return
    except ValueError as error:
        raise ConfigError("--out", str(path), f"no JSON: {error}") from error
    before, now = _flat(kept), _flat(wanted)
    for key in sorted(before | now):
        if before.get(key) != now.get(key):
            fix = f"was {before.get(key)!r} when {directory} was begun: take a new --out"
            raise ConfigError(key, now.get(key), fix)


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        return {prefix: value}
    return {
        path: leaf
        for key, item in value.items()
        for path, leaf in _flat(item, f"{prefix}.{key}" if prefix else str(key)).items()
    }
