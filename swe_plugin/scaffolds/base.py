"""What a scaffold is: the agent's control flow between a policy and an environment."""

from __future__ import annotations

import abc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from swe_plugin.environments.base import Environment
from swe_plugin.policies.base import Policy
from swe_plugin.types import Message, Phase, StopReason, Task, Turn

__all__ = ["Episode", "Scaffold"]


@dataclass(slots=True)
class Episode:
    """What the agent did so far. The scaffold fills it in place, so that a rollout that is cut by a
    deadline or a dead environment still has everything up to that moment."""

    messages: list[Message] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    n_format_errors: int = 0
    phases: list[Phase] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Take the time of a block, however it ends.

        Args:
            name: ``generate`` (the policy answers) or ``exec`` (a command runs).
        """
        began, clock = time.time(), time.perf_counter()
        try:
            yield
        finally:
            self.phases.append(Phase(name, began, time.perf_counter() - clock))

    @property
    def generate_s(self) -> float:
        """Seconds spent waiting for the policy."""
        return sum(phase.seconds for phase in self.phases if phase.name == "generate")

    @property
    def exec_s(self) -> float:
        """Seconds spent waiting for commands."""
        return sum(phase.seconds for phase in self.phases if phase.name == "exec")


class Scaffold(abc.ABC):
    """One class with one method. Built once per worker from ``swe.scaffold``; holds no per-rollout state."""

    @abc.abstractmethod
    async def run(self, task: Task, environment: Environment, policy: Policy, episode: Episode) -> StopReason:
        """Drive one episode to its end and say why it ended.

        Returns one of submitted, stopped, max_turns, context_full, format_errors. The caller enforces the
        wall-clock limit by cancelling, and classifies errors:

        Raises:
            EnvironmentUnavailable, PolicyError: infrastructure failed; passed through, never swallowed.
        """

    async def close(self) -> None:
        """Let go of what was opened for all rollouts; called when the worker closes."""
        return
