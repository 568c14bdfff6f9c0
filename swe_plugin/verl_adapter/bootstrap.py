"""Entry point of group ``verl.plugins``: importing this module is all that verl does with it.

It is imported by **every** process that imports verl, also by runs that never heard of this package, so it
holds no work of its own: standard library only, and everything heavier happens behind two conditions.

* The process is a driver (`is_driver`): offer our recipes to Hydra, so that ``+plugin=swe`` means something.
* The run is ours and computes on the CPU (`DEVICE_VARIABLE`, set by the recipe for all Ray workers): apply
  `swe_plugin.verl_adapter.cpu`.

verl swallows every ``Exception`` a plugin raises here and would then train without it. If the command line
asks for us, a failure therefore ends the process with the reason (``SystemExit`` is not an ``Exception``).
"""

from __future__ import annotations

import importlib
import itertools
import os
import sys

__all__ = ["DEVICE_VARIABLE", "asks_for_us", "is_driver", "load"]

DEVICE_VARIABLE = "SWE_PLUGIN_DEVICE"
"""Environment variable that marks the processes of our runs: ``cpu`` or ``gpu``; unset in everyone else's."""

_GROUP = "plugin="


def asks_for_us(arguments: list[str]) -> bool:
    """Whether a command line selects one of our recipes: ``+plugin=swe`` or ``+plugin=swe/<recipe>``."""
    for argument in arguments:
        key, _, value = argument.lstrip("+").partition("=")
        if f"{key}=" == _GROUP and (value == "swe" or value.startswith("swe/")):
            return True
    return False


def is_driver(command: list[str]) -> bool:
    """Whether this process will read a Hydra configuration.

    ``python -m verl.trainer.main_ppo`` imports the package verl, and with it this module, before main_ppo
    imports Hydra; a script of a user's own may have imported Hydra already.

    Args:
        command: the interpreter's whole command line, `sys.orig_argv`.
    """
    runs_verl = any(flag == "-m" and name.startswith("verl.") for flag, name in itertools.pairwise(command))
    return runs_verl or "hydra" in sys.modules or asks_for_us(command)


def load(arguments: list[str]) -> None:
    """Do what this process needs, see the module's docstring.

    Args:
        arguments: command line of the process.

    Raises:
        SystemExit: the command line asks for us and something of ours is broken, or names what does not exist.
    """
    try:
        if is_driver(sys.orig_argv):
            from swe_plugin.verl_adapter import command_line, searchpath

            searchpath.register()
            command_line.refuse_mistakes(arguments)
            if asks_for_us(arguments):  # Hydra would say of a broken callback only that it cannot be found
                importlib.import_module("swe_plugin.verl_adapter.callback")
            if asks_for_us(arguments) and searchpath.chosen_device(arguments) == "cpu":
                os.environ.setdefault(DEVICE_VARIABLE, "cpu")
        if os.environ.get(DEVICE_VARIABLE) == "cpu":
            from swe_plugin.verl_adapter import cpu

            cpu.activate()
    except Exception as error:
        if asks_for_us(arguments) or DEVICE_VARIABLE in os.environ:
            raise SystemExit(f"swe-plugin cannot start: {type(error).__name__}: {error}") from error
        raise


load(sys.argv[1:])
