"""A section as the user wrote it, checked against the schema."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any, TypeVar

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException

from swe_plugin.config.limits import check_limits
from swe_plugin.config.schema import SweConfig
from swe_plugin.errors import ConfigError

__all__ = ["check_key", "load_config", "read_options"]

_T = TypeVar("_T")


def load_config(section: Mapping[str, Any] | DictConfig | None) -> SweConfig:
    """Check a ``swe:`` section against the schema and fill in defaults.

    Raises:
        ConfigError: unknown key (with the nearest known one), wrong type, or limits that contradict.
    """
    plain = OmegaConf.to_container(section, resolve=True) if isinstance(section, DictConfig) else dict(section or {})
    given = OmegaConf.create(plain)
    try:
        merged = OmegaConf.merge(OmegaConf.structured(SweConfig), given)
        config = OmegaConf.to_object(merged)
    except ConfigKeyError as error:
        key = str(error.full_key or error.key)
        raise ConfigError(f"swe.{key}", OmegaConf.select(given, key), _did_you_mean(key)) from error
    except OmegaConfBaseException as error:
        key = str(error.full_key or error.key)
        reason = str(error).splitlines()[0]
        raise ConfigError(f"swe.{key}", OmegaConf.select(given, key), reason) from error
    assert isinstance(config, SweConfig)
    check_limits(config)
    return config


def read_options(schema: type[_T], given: Mapping[str, Any], prefix: str) -> _T:
    """Settings of a plugin's own, checked like ours.

    Args:
        schema: a dataclass.
        given: what the user wrote.
        prefix: dotted path of the section, for the error.

    Raises:
        ConfigError: an unknown key, with the nearest known one, or a wrong type.
    """
    try:
        made = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(schema), dict(given)))
    except OmegaConfBaseException as error:
        key, known = str(error.full_key or error.key), [field.name for field in dataclasses.fields(schema)]  # type: ignore[arg-type]
        fix = str(error).splitlines()[0]
        if isinstance(error, ConfigKeyError):
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            fix = f"unknown key; did you mean {near[0]}?" if near else f"unknown key; there are {', '.join(known)}"
        raise ConfigError(f"{prefix}.{key}", given.get(key), fix) from error
    assert isinstance(made, schema)
    return made


def check_key(key: str, value: object = None) -> None:
    """Refuse a dotted key, ``swe.`` included, that is not in the schema.

    Args:
        key: of a section or a leaf; below a mapping anything goes.
        value: what it should become, for the error.

    Raises:
        ConfigError: unknown key, with the nearest known one.
    """
    schema, path = OmegaConf.structured(SweConfig), key.removeprefix("swe.")
    known = _keys(schema)
    mappings = [name for name in known if OmegaConf.get_type(OmegaConf.select(schema, name)) is dict]
    if path not in known and not path.startswith(tuple(f"{name}." for name in mappings)):
        raise ConfigError(key, value, _did_you_mean(path))


def _did_you_mean(key: str) -> str:
    known = sorted(_keys(OmegaConf.structured(SweConfig)))
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    return f"unknown key; did you mean swe.{near[0]}?" if near else "unknown key; see docs/configuration.md"


def _keys(node: DictConfig, prefix: str = "") -> list[str]:
    keys: list[str] = []
    for name in map(str, node):
        path = f"{prefix}{name}"
        child = node._get_node(name)
        keys += [path, *_keys(child, f"{path}.")] if isinstance(child, DictConfig) else [path]
    return keys
