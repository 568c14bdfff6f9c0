"""What `--policy` names: a scaffold that asks nobody, or a policy for the configured scaffold."""

from __future__ import annotations

import dataclasses
import difflib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from swe_plugin.errors import ConfigError
from swe_plugin.policies.scripted import ScriptedPolicy

if TYPE_CHECKING:
    from swe_plugin.config import SweConfig
    from swe_plugin.rollout.worker import PolicyFactory

__all__ = ["POLICIES", "Choice", "choose"]

_LITELLM = "litellm:"
POLICIES = {
    "gold": "applies the reference fix: reward 1, or the task is broken",
    "empty": "submits at once: reward 0, or the tests prove nothing",
    "scripted": "commands or answers from a file (--script)",
    "keyboard": "you type the commands",
    _LITELLM: "a hosted model, e.g. litellm:openai/gpt-5-mini (extra litellm)",
}
"""Policy -> what it does. The last one is followed by a model."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What `--policy` means.

    Attributes:
        scaffold: to be used instead of the configured one; empty: keep that.
        policy: makes what makes the policy of a rollout's attempts, given a seed for sampling or None.
        model: who answers, e.g. ``openai/gpt-5-mini`` or ``gold``.
        seeded: the seed means something.
    """

    scaffold: str
    policy: Callable[[int | None], PolicyFactory]
    model: str
    seeded: bool = False


def choose(name: str, script: Path | None, config: SweConfig, console: Console | None) -> Choice:
    """Make sense of ``--policy`` and ``--script``.

    Args:
        name, script: the words.
        config: the whole ``swe:`` section.
        console: where a human is prompted; None: no human is there to type.

    Raises:
        ConfigError: an unknown policy, or a script that is missing, wrong, or not asked for.
        PluginError: the policy needs an extra that is not installed.
    """
    if script is not None and name != "scripted":
        raise ConfigError("--script", str(script), f"goes with --policy scripted, not {name}")
    if name.startswith(_LITELLM):
        return _litellm(name.removeprefix(_LITELLM), config)
    makers: dict[str, Callable[[], PolicyFactory]] = {
        "gold": lambda: partial(ScriptedPolicy, ()),
        "empty": lambda: partial(ScriptedPolicy, ()),
        "scripted": lambda: _scripted(script, config),
    }
    if console is not None:
        makers["keyboard"] = lambda: _keyboard(config, console)
    if name not in makers:
        near = difflib.get_close_matches(name, [*makers, _LITELLM], n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigError("--policy", name, f"{hint}There are {', '.join(makers)} and {_LITELLM}<provider>/<model>")
    make = makers[name]()
    return Choice(name if name in ("gold", "empty") else "", lambda seed: make, name)


def _scripted(script: Path | None, config: SweConfig) -> PolicyFactory:
    from swe_plugin.cli.episode.script import read_script

    if script is None:
        raise ConfigError("--script", None, "--policy scripted needs a file of commands or answers")
    return partial(ScriptedPolicy, read_script(script, config.scaffold.action))


def _keyboard(config: SweConfig, console: Console) -> PolicyFactory:
    from swe_plugin.cli.episode.keyboard import KeyboardPolicy, Lines

    return partial(KeyboardPolicy, console, Lines(sys.stdin), config.scaffold.action)


def _litellm(model: str, config: SweConfig) -> Choice:
    from swe_plugin.policies.litellm_policy import LitellmPolicy

    seeded = LitellmPolicy(model, config.policy).takes_seed  # a missing key or package is said before anything starts

    def policy(seed: int | None) -> PolicyFactory:
        settings = config.policy
        if seeded and seed is not None:
            settings = dataclasses.replace(settings, litellm={**settings.litellm, "seed": seed})
        return partial(LitellmPolicy, model, settings, {})

    return Choice("", policy, model, seeded)
