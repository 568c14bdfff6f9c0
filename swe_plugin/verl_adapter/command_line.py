"""A command line, looked at before Hydra composes it: Hydra says what it does not know, this says what was meant."""

from __future__ import annotations

import difflib
import itertools
import sys
from pathlib import Path

import yaml

from swe_plugin.config import check_key
from swe_plugin.errors import ConfigError
from swe_plugin.verl_adapter.bootstrap import asks_for_us
from swe_plugin.verl_adapter.searchpath import recipe_names

__all__ = ["EXIT_BAD_CONFIGURATION", "MULTIRUN_REFUSED", "check_words", "refuse_mistakes"]

EXIT_BAD_CONFIGURATION = 2
"""Exit code of a run that was refused before Ray started."""

_OWN_FILES = ("--config-dir", "-cd", "--config-path", "-cp", "hydra.searchpath")
"""Words after which files that are not ours may be meant."""

MULTIRUN_REFUSED = """\
swe-plugin: --multirun: one process trains once; let your shell start one after another:
  for seed in 1 2 3; do python -m verl.trainer.main_ppo +plugin=swe swe.demo.seed=$seed; done
"""


def refuse_mistakes(arguments: list[str]) -> None:
    """End the process with one line if `check_words` refuses, or if one process should train several times.

    Raises:
        SystemExit: with `EXIT_BAD_CONFIGURATION`.
    """
    if asks_for_us(arguments) and not {"-m", "--multirun"}.isdisjoint(arguments):
        sys.stderr.write(MULTIRUN_REFUSED)  # here, because argparse refuses words after it for another reason
        raise SystemExit(EXIT_BAD_CONFIGURATION)
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
    _check_own_files(arguments)
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


def _check_own_files(arguments: list[str]) -> None:
    """Refuse a user's file that is no YAML: Hydra answers with its parser's traceback."""
    folder, name = _option(arguments, "--config-dir", "-cd"), _option(arguments, "--config-name", "-cn")
    recipes = [word.lstrip("+").removeprefix("plugin=") for word in arguments if word.lstrip("+").startswith("plugin=")]
    names = [f"plugin/{recipe}" for recipe in recipes] + ([name.removesuffix(".yaml")] if name else [])
    for path in (Path(folder, f"{name}.yaml") for name in names if folder):
        try:
            if path.is_file():
                yaml.safe_load(path.read_text("utf-8"))
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            line = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
            raise ConfigError("--config-dir", folder, f"{line}: no valid YAML: {error.problem}") from error


def _option(arguments: list[str], *flags: str) -> str:
    """Value of a command-line option in either spelling, ``--flag value`` or ``--flag=value``; "" if absent."""
    for word, following in itertools.pairwise([*arguments, ""]):
        flag, equals, value = word.partition("=")
        if flag in flags:
            return value if equals else following
    return ""
