"""All kinds of bugs, by name."""

from __future__ import annotations

from collections.abc import Mapping

from swe_plugin.synth.bugs import calls, operators, statements
from swe_plugin.synth.bugs.scope import Kind

__all__ = ["KINDS"]

KINDS: Mapping[str, Kind] = {
    kind.__name__: kind
    for kind in (
        operators.comparison,
        operators.boolean,
        operators.arithmetic,
        operators.off_by_one,
        operators.dropped_not,
        operators.flipped_flag,
        operators.slice_bound,
        calls.swapped_arguments,
        calls.dropped_keyword,
        calls.wrong_function,
        calls.wrong_name,
        calls.changed_default,
        calls.wrong_exception,
        statements.negated_condition,
        statements.dead_branch,
        statements.swapped_branches,
        statements.dropped_raise,
        statements.return_none,
        statements.dropped_statement,
        statements.loop_control,
    )
}
"""Name -> procedure. The first line of its docstring says what it does."""
