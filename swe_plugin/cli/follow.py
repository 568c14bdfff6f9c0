"""Following a run through what verl prints and logs: where its files lie, which step it is at, why it died."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from swe_plugin.cli.metrics import Step, parse_lines

__all__ = ["RunFollower", "useful_lines"]

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_RAY_PREFIX = re.compile(r"^\([\w.:<>-]+ (?:pid|ip)=[^)]*\) ?")
_METRICS_AT = re.compile(r"Creating file logger at (?P<path>/.*\S)")
_RUN_AT = re.compile(r"^swe-plugin: the run is in (?P<path>/.*\S)")
_TOTAL = re.compile(r"Training Progress:.*?\d+/(?P<total>\d+)")
_OURS = re.compile(r"^swe-plugin: (?P<text>.+)$")
_PHASES = (
    (re.compile(r"Started a local Ray instance"), "Ray is up; its workers import verl"),
    (re.compile(r"Initializing a V1 LLM engine"), "vLLM starts"),
    (re.compile(r"Creating file logger at"), "first rollouts"),
)
_NOISE = re.compile(
    r"^\s*$|Training Progress:|\bINFO\b|\bWARNING\b|Warning|^\s*warnings\.warn|^step:\d+ - |\[repeated \d+x"
    r"|(?:it/s|s/it)\]"
)


def plain(line: str) -> str:
    """A line without colours, carriage returns and Ray's process prefix."""
    return _RAY_PREFIX.sub("", _ANSI.sub("", line.rstrip("\n")).rpartition("\r")[2])


def useful_lines(text: str, limit: int = 25) -> list[str]:
    """The lines of a log that say why it ended: the last traceback, or the last lines without noise."""
    lines = [line for line in map(plain, text.splitlines()) if not _NOISE.search(line)]
    starts = [number for number, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    if starts and len(lines) - starts[-1] <= 4 * limit:
        lines = lines[starts[-1] :]
    return lines[-limit:]


class RunFollower:
    """Reads the growing log and metrics file of one run.

    Attributes:
        run_dir: the run's directory, once verl has said where its metrics go.
        total: training steps of the whole run, once known.
        phase: what the run is doing, in words.
    """

    def __init__(self, log: Path) -> None:
        self.run_dir: Path | None = None
        self.total: int | None = None
        self.phase = "starting"
        self._log = log
        self._metrics: Path | None = None
        self._offsets: dict[Path, int] = {}

    def poll(self) -> list[Step]:
        """Read what is new; returns the steps that were logged since the last call."""
        for line in self._new_lines(self._log):
            self._read(plain(line))
        if self._metrics is None or not self._metrics.exists():
            return []
        return parse_lines(self._new_lines(self._metrics))

    def _read(self, line: str) -> None:
        if found := _METRICS_AT.search(line):
            self._metrics = Path(found["path"])
            self.run_dir = self._metrics.parent
        elif found := _RUN_AT.search(line):
            self.run_dir = Path(found["path"])
        if found := _TOTAL.search(line):
            self.total = int(found["total"])
        if found := _OURS.search(line):
            self.phase = found["text"]
        for pattern, phase in _PHASES:
            if pattern.search(line):
                self.phase = phase

    def _new_lines(self, path: Path) -> Iterator[str]:
        """Complete lines appended since the last call."""
        with path.open("rb") as file:
            file.seek(self._offsets.get(path, 0))
            chunk = file.read()
        complete = chunk[: chunk.rfind(b"\n") + 1]
        self._offsets[path] = self._offsets.get(path, 0) + len(complete)
        return iter(complete.decode("utf-8", "replace").splitlines())
