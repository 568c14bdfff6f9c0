"""`EpisodeView`: prints an episode while it happens."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from swe_plugin.scaffolds.base import Episode
from swe_plugin.scaffolds.observations import clean, observe
from swe_plugin.scaffolds.parsers import SUBMIT
from swe_plugin.types import ExecResult, StopReason, Task

__all__ = ["EpisodeView"]


class EpisodeView:
    """Satisfies `watch.Observer`. Each thing is printed once, as soon as it is there.

    Args:
        console: where to.
        task: whose problem is shown first.
        output_chars: characters of a command's output that are shown.
    """

    def __init__(self, console: Console, task: Task, *, output_chars: int = 2000) -> None:
        self._console, self._task, self._limit = console, task, output_chars
        self._attempt = 0
        self._turn, self._generate_s, self._started = 0, 0.0, False
        self._actions, self._results, self._corrected = 0, 0, False

    def begin(self) -> None:
        """Say what the agent was told, or that it starts again."""
        self._attempt += 1
        self._restart()
        if self._attempt > 1:
            self._rule(f"attempt {self._attempt}, in a fresh environment", "yellow")
        else:
            self._rule(self._task.instance_id, "bold")
            self._text(observe(self._task.problem_statement, self._limit))

    def update(self, episode: Episode) -> None:
        """Print what is new."""
        answers = [message.content for message in episode.messages if message.role == "assistant"]
        for number in range(self._turn, len(episode.turns)):
            if number > self._turn or not self._started:
                self._begin_turn(number, answers[number] if number < len(answers) else "", episode)
            turn = episode.turns[number]
            for action in turn.actions[self._results :]:
                place = self._results
                if place == self._actions:
                    self._text(f"$ {clean(action)}", "bold cyan")
                    self._actions += 1
                if place >= len(turn.results):
                    break
                self._result(turn.results[place])
                self._results += 1
            if turn.format_error and not self._corrected:
                self._text(f"no action: {clean(turn.format_error)}", "yellow")
                self._corrected = True

    def end(self, stop: StopReason | None) -> None:
        """Say why the agent ended and what comes next."""
        self._rule(f"{stop}; reading the patch and grading it" if stop else "the agent was stopped", "bold")

    def _restart(self) -> None:
        self._turn, self._generate_s, self._started = 0, 0.0, False
        self._new_turn()

    def _new_turn(self) -> None:
        self._actions, self._results, self._corrected = 0, 0, False

    def _begin_turn(self, number: int, answer: str, episode: Episode) -> None:
        self._turn, self._started = number, True
        self._new_turn()
        seconds = episode.generate_s - self._generate_s
        self._generate_s = episode.generate_s
        self._rule(f"turn {number + 1}, answered in {seconds:.1f} s", "dim")
        if thought := _thought(answer, episode.turns[number].actions):
            self._text(observe(thought, self._limit), "italic")

    def _result(self, result: ExecResult) -> None:
        if output := observe(result.stdout + result.stderr, self._limit).rstrip():
            self._text(output, "dim")
        how = "timed out" if result.timed_out else f"exit {result.exit_code}"
        cut = ", output was cut" if result.truncated else ""
        self._text(f"{how} after {result.duration_s:.2f} s{cut}", "red" if result.exit_code else "green")

    def _rule(self, title: str, style: str) -> None:
        self._console.print(Text(f"── {title}", style))

    def _text(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style), soft_wrap=True)


def _thought(answer: str, actions: list[str]) -> str:
    """What an answer says beside its actions, which are shown on their own."""
    for action in (*actions, SUBMIT):
        answer = answer.replace(f"```bash\n{action}\n```", "")
    return clean(answer).strip()
