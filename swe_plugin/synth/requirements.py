"""What the tests of a project need."""

from __future__ import annotations

from collections.abc import Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from swe_plugin.errors import ConfigError

__all__ = ["merged_requirements"]


def merged_requirements(needed: Sequence[str], wanted: Sequence[str], project: str) -> tuple[str, ...]:
    """Requirement lines, those of the caller instead of others for the same package.

    Args:
        needed: valid lines.
        wanted: of the caller.
        project: normalised name.

    Raises:
        ConfigError: one of `wanted` is no requirement, or is the project itself, whose installed copy would show the
            fix to every agent.
    """
    chosen = {canonicalize_name(Requirement(line).name): line for line in needed}
    for line in wanted:
        try:
            name = canonicalize_name(Requirement(line).name)
        except InvalidRequirement as error:
            raise ConfigError("--with", line, f"is no requirement: {error}") from error
        if name == project:
            raise ConfigError("--with", line, "is the project itself: an installed copy shows every agent the fix")
        chosen[name] = line
    return tuple(chosen.values())
