"""Demo episodes without processes: the same observations and verdicts as bash, sed and the hidden tests.

Used to compute baselines and to screen training settings; tests compare it with real execution.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from swe_plugin.data.demo.behaviours import BEHAVIOURS
from swe_plugin.data.demo.commands import LOOK, SUBMIT, fixed_expression
from swe_plugin.types import ExecResult, Task

__all__ = ["SimulatedEpisode"]

_EXPRESSIONS = {behaviour.name: behaviour.expression for behaviour in BEHAVIOURS}


@dataclass(slots=True)
class SimulatedEpisode:
    """One agent in one fresh repository.

    Attributes:
        task: a demo task.
        max_turns: turns after which the episode ends by itself.
        turns: commands so far.
        done: submitted, or out of turns.
    """

    task: Task
    max_turns: int
    turns: int = 0
    done: bool = False
    _lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        (source,) = [text for path, text in self.task.image.files.items() if path.endswith(".py")]
        self._lines = source.splitlines(keepends=True)

    def step(self, command: str | None) -> ExecResult:
        """Run one command; None is an answer in which no command could be read.

        A command outside of `commands.MENU`'s shapes changes nothing and reports exit code 127, which is
        where this differs from a shell.
        """
        self.turns += 1
        self.done = command == SUBMIT or self.turns >= self.max_turns
        if command == LOOK:
            return ExecResult("".join(self._lines[:3]))
        expression = fixed_expression(command) if command else None
        if expression is not None:
            self._lines[2] = f"    return {expression}\n"
            return ExecResult("")
        return ExecResult("", exit_code=0 if command in (None, SUBMIT) else 127)

    @property
    def resolved(self) -> bool:
        """Whether the hidden tests would pass now."""
        wanted = _EXPRESSIONS[self.task.metadata["behaviour"]]
        return self._lines[2] == f"    return {wanted}\n"
