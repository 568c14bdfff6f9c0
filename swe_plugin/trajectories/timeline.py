"""`Timeline`: what happened when in a run, from the records of its rollouts and the events of its trainer."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swe_plugin.trajectories.store import find_trajectories
from swe_plugin.types import Phase

__all__ = ["EVENTS_FILE", "Bar", "Timeline", "read_timeline"]

EVENTS_FILE = "trainer_events.jsonl"
"""One JSON object per line: ``t`` (Unix time), ``event`` (dispatched, sampled), ``partition``, ``step``."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of time on a lane.

    Attributes:
        lane: ``trainer``, or ``<host>:<process id>`` of a worker.
        row: of the lane; bars of one row do not overlap.
        phase: what and when.
        label: instance and session, or the step.
    """

    lane: str
    row: int
    phase: Phase
    label: str


@dataclass(slots=True)
class Timeline:
    """Bars of a run, in no order. Times are Unix seconds."""

    bars: list[Bar] = field(default_factory=list)

    @property
    def zero(self) -> float:
        """When the first bar begins."""
        return min((bar.phase.began for bar in self.bars), default=0.0)

    @property
    def end(self) -> float:
        """When the last bar ends."""
        return max((bar.phase.began + bar.phase.seconds for bar in self.bars), default=0.0)

    def lanes(self) -> dict[str, int]:
        """Lane -> number of its rows, the trainer first."""
        rows: dict[str, int] = {"trainer": 1}
        for bar in sorted(self.bars, key=lambda bar: bar.lane):
            rows[bar.lane] = max(rows.get(bar.lane, 0), bar.row + 1)
        return rows

    def chrome_trace(self) -> dict[str, Any]:
        """As Chrome's and Perfetto's JSON trace format: complete events (``ph: X``), times in microseconds."""
        lanes = {lane: number for number, lane in enumerate(self.lanes())}
        events: list[dict[str, Any]] = [
            {"name": "process_name", "ph": "M", "pid": number, "tid": 0, "args": {"name": lane}}
            for lane, number in lanes.items()
        ]
        for bar in self.bars:
            when = {"ts": round((bar.phase.began - self.zero) * 1e6), "dur": round(bar.phase.seconds * 1e6)}
            place = {"pid": lanes[bar.lane], "tid": bar.row}
            events.append({"name": bar.phase.name, "ph": "X", **when, **place, "args": {"label": bar.label}})
        return {"traceEvents": events, "displayTimeUnit": "ms"}


def read_timeline(run: Path, steps: Iterable[int] = ()) -> Timeline:
    """Read a run's directory.

    Args:
        run: its directory.
        steps: trainer steps to take; none: all.

    Raises:
        FileNotFoundError: no rollout of these steps has its times recorded there.
    """
    wanted = set(steps)
    timeline = Timeline()
    rollouts = [
        record
        for path in find_trajectories(run)
        if not wanted or int(path.parents[1].name.removeprefix("step_")) in wanted
        if (record := _read(path / "trajectory.json"))["phases"]
    ]
    if not rollouts:
        raise FileNotFoundError(2, "no rollout with times", str(run))
    for worker in sorted({record["worker"] for record in rollouts}):
        timeline.bars += _pack(worker, [record for record in rollouts if record["worker"] == worker])
    timeline.bars += [bar for bar in _trainer(run / EVENTS_FILE) if not wanted or int(bar.label.split()[-1]) in wanted]
    return timeline


def _read(path: Path) -> dict[str, Any]:
    data = json.loads(path.read_text(encoding="utf-8"))
    phases = [Phase(**item) for item in data.get("phases", ())]
    label = f"{data['instance_id']}@{data['session']} ({data['phase']}, step {data['step']})"
    return {"worker": data.get("worker") or "worker", "label": label, "phases": phases}


def _pack(lane: str, rollouts: list[dict[str, Any]]) -> Iterator[Bar]:
    """Rollouts of one worker on as few rows as there were at once."""
    free_at: list[float] = []
    for record in sorted(rollouts, key=lambda record: min(phase.began for phase in record["phases"])):
        began = min(phase.began for phase in record["phases"])
        ended = max(phase.began + phase.seconds for phase in record["phases"])
        row = next((number for number, free in enumerate(free_at) if free <= began), len(free_at))
        free_at[row:] = [ended, *free_at[row + 1 :]]
        for phase in record["phases"]:
            yield Bar(lane, row, phase, record["label"])


def _trainer(path: Path) -> Iterator[Bar]:
    """Between dispatch and batch the trainer waits for rollouts; from then to the next dispatch it works."""
    events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    for event, following in itertools.pairwise(events):
        seconds = following["t"] - event["t"]
        waits = event["event"] == "dispatched"
        name = ("rollouts" if event["partition"] == "train" else "validation") if waits else "training"
        yield Bar("trainer", 0, Phase(name, event["t"], seconds), f"step {event['step']}")
