"""The table of mutants: each is a backend with one fault, and names the checks that find it."""

import dataclasses

from swe_plugin_example.environment import BubblewrapEnvironment as Bubblewrap

from swe_plugin.environments.sandbox import SandboxEnvironment as Sandbox

__all__ = ["MUTANTS", "Bubblewrap", "Sandbox", "found_by", "replaced"]

MUTANTS = {}
"""Name -> class, checks."""


def found_by(*checks):
    """The checks that must fail, each of them; one with many cases: at least one case."""

    def note(mutant):
        MUTANTS[mutant.__name__] = (mutant, checks)
        return mutant

    return note


replaced = dataclasses.replace
