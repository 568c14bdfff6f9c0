"""`key=value` words of a command line as a checked ``swe:`` section."""

from __future__ import annotations

from collections.abc import Iterable

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from swe_plugin.config import SweConfig, load_config
from swe_plugin.errors import ConfigError

__all__ = ["config_from_words"]

_PREFIX = "swe."


def config_from_words(words: Iterable[str]) -> SweConfig:
    """Defaults changed by words such as ``swe.scaffold.max_turns=3``; values are YAML, the last word of a key wins.

    Raises:
        ConfigError: a word is no ``swe.key=value``, or `load_config` refuses the key or the value.
    """
    section = OmegaConf.create()
    for word in words:
        key, equals, value = word.lstrip("+").partition("=")
        if not equals:
            raise ConfigError("word", word, "must be swe.key=value, see docs/configuration.md")
        if not key.startswith(_PREFIX):
            raise ConfigError(key, value, "only swe.* keys mean something here; all others are verl's")
        try:
            section.merge_with_dotlist([f"{key.removeprefix(_PREFIX)}={value}"])
        except (OmegaConfBaseException, YAMLError, ValueError) as error:
            raise ConfigError(key, value, f"no valid value: {str(error).splitlines()[0]}") from error
    try:
        return load_config(section)
    except OmegaConfBaseException as error:  # an interpolation that leads nowhere
        raise ConfigError(_PREFIX + str(error.full_key or ""), None, str(error).splitlines()[0]) from error
