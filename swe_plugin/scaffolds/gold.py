"""`GoldScaffold`: applies the reference fix and submits. What it does not resolve, no agent can."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swe_plugin.errors import PatchError
from swe_plugin.scaffolds.base import Episode, Scaffold
from swe_plugin.types import StopReason, Task, Turn

if TYPE_CHECKING:
    from swe_plugin.config import ScaffoldConfig
    from swe_plugin.environments.base import Environment
    from swe_plugin.policies.base import Policy

__all__ = ["GoldScaffold"]

_APPLY = ("git", "apply", "--whitespace=nowarn", "-")
_REASON_CHARS = 2000


class GoldScaffold(Scaffold):
    """No model is asked. `Task.gold_patch` goes through the repository's own git, which made it, then as any work
    through recording and grading.

    Args:
        settings: the ``swe.scaffold`` section; only ``command_timeout_s`` matters here.
    """

    def __init__(self, settings: ScaffoldConfig) -> None:
        self._timeout_s = settings.command_timeout_s

    async def run(self, task: Task, environment: Environment, policy: Policy, episode: Episode) -> StopReason:
        """Apply the patch; see `Scaffold.run`.

        Raises:
            PatchError: the task has no gold patch, or it does not apply: the task is broken, so there is no verdict.
        """
        if not task.gold_patch.strip():
            raise PatchError(f"{task.instance_id} has no gold patch")
        turn = Turn(actions=[" ".join(_APPLY)])
        episode.turns.append(turn)
        with episode.timed("exec"):
            result = await environment.exec(_APPLY, stdin=task.gold_patch.encode(), timeout_s=self._timeout_s)
        turn.results.append(result)
        if result.exit_code:
            reason = "took too long" if result.timed_out else (result.stderr or result.stdout)[-_REASON_CHARS:].strip()
            raise PatchError(f"the gold patch of {task.instance_id} does not apply: {reason}")
        return StopReason.SUBMITTED
