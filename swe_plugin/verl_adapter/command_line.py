"""A command line, looked at before Hydra composes it: Hydra says what it does not know, this says what was meant."""

from __future__ import annotations

import difflib
import sys

from swe_plugin.config import check_key
from swe_plugin.errors import ConfigError
from swe_plugin.verl_adapter.bootstrap import asks_for_us
from swe_plugin.verl_adapter.searchpath import recipe_names

__all__ = ["EXIT_BAD_CONFIGURATION", "check_words", "refuse_mistakes"]

EXIT_BAD_CONFIGURATION = 2
"""Exit code of a run that was refused before Ray started."""

_OWN_FILES = ("--config-dir", "-cd", "--config-path", "-cp", "hydra.searchpath")
"""Words after which files that are not ours may be meant."""


def refuse_mistakes(arguments: list[str]) -> None:
    """End the process with one line if `check_words` refuses.

    Raises:
        SystemExit: with `EXIT_BAD_CONFIGURATION`.
    """
    try:
        check_words(arguments)
    except ConfigError as error:
        sys.stderr.write(f"swe-plugin: {error}\n")
        raise SystemExit(EXIT_BAD_CONFIGURATION) from error


def check_words(arguments: list[str]) -> None:
    """Refuse recipes and keys of ours that do not exist. Values are checked once the configuration is composed.

    Raises:
        ConfigError: names the nearest that does exist.
    """
    own_files = any(word.startswith(_OWN_FILES) for word in arguments)
    for word in arguments:
        key, equals, value = word.lstrip("+~").partition("=")
        if key == "plugin" and equals and not own_files:
            _check_recipe(value)
        elif key.startswith("swe.") and asks_for_us(arguments):
            check_key(key, value)


def _check_recipe(value: str) -> None:
    known = recipe_names()
    near = difflib.get_close_matches(value, known, n=1, cutoff=0.7)
    if value not in known and (near or value.startswith("swe/")):
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigError("plugin", value, f"no such recipe; {hint}there are {', '.join(known)}")
