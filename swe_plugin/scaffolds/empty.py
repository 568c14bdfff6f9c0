"""`EmptyScaffold`: submits at once. A task that it resolves has tests that prove nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swe_plugin.scaffolds.base import Episode, Scaffold
from swe_plugin.types import StopReason, Task

if TYPE_CHECKING:
    from swe_plugin.config import ScaffoldConfig
    from swe_plugin.environments.base import Environment
    from swe_plugin.policies.base import Policy

__all__ = ["EmptyScaffold"]


class EmptyScaffold(Scaffold):
    """Changes nothing, asks nobody.

    Args:
        settings: the ``swe.scaffold`` section; nothing of it matters here.
    """

    def __init__(self, settings: ScaffoldConfig) -> None:
        pass

    async def run(self, task: Task, environment: Environment, policy: Policy, episode: Episode) -> StopReason:
        """Submit; see `Scaffold.run`."""
        return StopReason.SUBMITTED
