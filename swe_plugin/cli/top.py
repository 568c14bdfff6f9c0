"""`RunView`: the rollouts of a run as a table, from what the run writes anyway."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from swe_plugin.trajectories.live import read_live
from swe_plugin.trajectories.store import find_trajectories

__all__ = ["Line", "RunView"]

_STALE_S = 15.0
"""A worker writes every second; one that was silent for so long is gone or hangs."""


@dataclass(frozen=True, slots=True)
class Line:
    """A rollout.

    Attributes:
        name: ``<instance>@<session>``.
        step, phase: of the trainer.
        state: what it does, or why it ended.
        attempt, turn: counted from 1; turn 0: the model was not asked yet.
        age_s: seconds since it began; in all, if it has ended.
        worker: ``<host>:<process id>``.
        command: last one.
    """

    name: str
    step: int
    phase: str
    state: str
    attempt: int
    turn: int
    age_s: float
    worker: str
    command: str


class RunView:
    """Looks at one run's directory, as often as wanted; what has ended is read once.

    Args:
        run_dir: of a run, running or finished.
    """

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._ended: dict[Path, Line] = {}

    def running(self) -> list[Line]:
        """Rollouts that have not ended, longest first."""
        now = time.time()
        lines = []
        for board in read_live(self._run_dir):
            silent = now - board["t"]
            lines += [_running(row, board["worker"], now, silent) for row in board["rollouts"]]
        return sorted(lines, key=lambda line: -line.age_s)

    def ended(self) -> list[Line]:
        """Rollouts of the newest step that have ended, newest last.

        Raises:
            ValueError: a record is not of this format.
        """
        paths = list(find_trajectories(self._run_dir))
        last = [path for path in paths if path.parents[1] == paths[-1].parents[1]]
        for path in last:
            if path not in self._ended:
                self._ended[path] = _ended(json.loads((path / "trajectory.json").read_text(encoding="utf-8")))
        return [self._ended[path] for path in last]

    def render(self, rows: int) -> RenderableType:
        """One line that sums up and a table of at most `rows` rollouts: those that run, or if none does, the last
        that ended."""
        running, ended = self.running(), self.ended()
        shown = running or ended
        table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
        for name in ("rollout", "step", "state", "attempt", "turn", "age s", "node"):
            table.add_column(name, no_wrap=True, justify="right" if name in ("attempt", "turn", "age s") else "left")
        table.add_column("last command", no_wrap=True, ratio=1)  # what does not fit is cut here
        for line in shown[:rows]:
            numbers = (f"{line.attempt}", f"{line.turn}", f"{line.age_s:.0f}")
            command = " ".join(line.command.split())
            where = f"{line.step} {line.phase}"
            table.add_row(*(Text(word) for word in (line.name, where, line.state, *numbers, line.worker, command)))
        more = [Text(f"and {len(shown) - rows} more (--rows)")] if len(shown) > rows else []
        return Group(Text(_summary(running, ended), style="bold"), table, *more)


def _summary(running: list[Line], ended: list[Line]) -> str:
    parts = [f"{len(running)} running{_counts(running)}"]
    if ended:
        parts.append(f"ended in step {ended[-1].step}: {len(ended)}{_counts(ended)}")
    return "; ".join(parts)


def _counts(lines: list[Line]) -> str:
    common = Counter(line.state for line in lines).most_common()
    return f" ({', '.join(f'{count} {state}' for state, count in common)})" if common else ""


def _running(row: dict[str, Any], worker: str, now: float, silent_s: float) -> Line:
    return Line(
        name=f"{row['instance_id']}@{row['session']}",
        step=row["step"],
        phase=row["phase"],
        state=row["state"] if silent_s < _STALE_S else "silent",
        attempt=row["attempt"],
        turn=row["turn"],
        age_s=now - row["began"],
        worker=worker,
        command=row["command"],
    )


def _ended(record: dict[str, Any]) -> Line:
    try:
        commands = [action for turn in record["turns"] for action in turn["actions"]]
        return Line(
            name=f"{record['instance_id']}@{record['session']}",
            step=record["step"],
            phase=record["phase"],
            state=record["stop"],
            attempt=max((failure["attempt"] for failure in record["failures"]), default=1),
            turn=len(record["turns"]),
            age_s=record["timings"].get("total", 0.0),
            worker=record.get("worker", ""),
            command=commands[-1] if commands else "",
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a trajectory: {type(error).__name__}: {error}") from error
