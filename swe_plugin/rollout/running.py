"""`Running`: a rollout that has not ended, as it can be looked at."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from swe_plugin.rollout.attempt import Attempt
    from swe_plugin.types import Task

__all__ = ["Running"]

_COMMAND_CHARS = 200


@dataclass(slots=True, eq=False)
class Running:
    """One rollout between its beginning and its record.

    Attributes:
        task: what is attempted.
        session: index in its group.
        step, phase: of the trainer.
        began: Unix time.
        attempt: the attempt it is at; None before the first, and for a patch that was made elsewhere.
        grading: the last attempt has ended.
    """

    task: Task
    session: int
    step: int
    phase: str
    began: float = field(default_factory=time.time)
    attempt: Attempt | None = None
    grading: bool = False

    @property
    def state(self) -> str:
        """``start`` (waiting for a slot included), ``setup``, ``generate``, ``exec``, ``patch`` or ``grade``."""
        if self.grading or self.attempt is None:
            return "grade" if self.grading else "start"
        if self.attempt.phase != "agent":
            return self.attempt.phase
        turns = self.attempt.episode.turns
        return "exec" if turns and len(turns[-1].actions) > len(turns[-1].results) else "generate"

    def to_json(self) -> dict[str, Any]:
        """What a table of rollouts shows."""
        turns = self.attempt.episode.turns if self.attempt else []
        commands = [action for turn in turns[-2:] for action in turn.actions]
        return {
            "instance_id": self.task.instance_id,
            "session": self.session,
            "step": self.step,
            "phase": self.phase,
            "began": self.began,
            "state": self.state,
            "attempt": self.attempt.number if self.attempt else 1,
            "turn": len(turns),
            "command": commands[-1][:_COMMAND_CHARS] if commands else "",
        }
