"""The commands a demo agent knows how to write: look, one fix per behaviour, submit.

This is the vocabulary of the warm start and of the random baseline; a trained policy may write anything.
"""

from __future__ import annotations

import re

from swe_plugin.data.demo.behaviours import BEHAVIOURS

__all__ = ["FIXES", "LOOK", "MENU", "SUBMIT", "fix", "fixed_expression"]

LOOK = "head -3 *.py"
"""Shows the function under repair."""
SUBMIT = "submit"
"""Hands in; never reaches a shell."""
_FIX = re.compile(r"sed -i '3s/return\.\*/return (?P<expression>[^/'\n&\\]+)/' \*\.py")


def fix(expression: str) -> str:
    """The command that makes the function under repair return `expression`, whatever it returned before."""
    return f"sed -i '3s/return.*/return {expression}/' *.py"


def fixed_expression(command: str) -> str | None:
    """The expression that a `fix` command writes; None for any other command."""
    match = _FIX.fullmatch(command)
    return match["expression"] if match else None


FIXES: tuple[str, ...] = tuple(fix(behaviour.expression) for behaviour in BEHAVIOURS)
"""One per behaviour, in the order of `BEHAVIOURS`."""
MENU: tuple[str, ...] = (LOOK, *FIXES, SUBMIT)
"""Every command of the random baseline."""
