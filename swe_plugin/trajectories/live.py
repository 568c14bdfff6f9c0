"""The rollouts that are running now, one small file per worker process, for who looks at a run from outside."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swe_plugin.trajectories.names import safe_name

__all__ = ["LIVE", "LiveBoard", "read_live"]

LIVE = "live"
"""Folder of a run's directory: ``<host>_<process id>.json`` with ``worker``, ``t`` (Unix time) and ``rollouts``."""


@dataclass(frozen=True, slots=True)
class LiveBoard:
    """One process's file.

    Attributes:
        run_dir: of the run.
        worker: ``<host>:<process id>``.
    """

    run_dir: Path
    worker: str

    @property
    def _file(self) -> Path:
        return self.run_dir / LIVE / f"{safe_name(self.worker.replace(':', '_'))}.json"

    def write(self, rollouts: Sequence[dict[str, Any]]) -> None:
        """Replace what the file says, in one step; no rollouts, no file.

        Raises:
            OSError: it cannot be written.
        """
        if not rollouts:
            self._file.unlink(missing_ok=True)
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        partial = self._file.with_suffix(".partial")
        partial.write_text(json.dumps({"worker": self.worker, "t": time.time(), "rollouts": rollouts}))
        os.replace(partial, self._file)  # noqa: PTH105

    def take_down(self) -> None:
        """Remove the file, and the directories that it alone had made."""
        with contextlib.suppress(OSError):  # others are shown there, or the run has records
            self._file.unlink(missing_ok=True)
            self._file.parent.rmdir()
            self.run_dir.rmdir()


def read_live(run_dir: Path) -> list[dict[str, Any]]:
    """What the files of a run say, by worker; one that goes away meanwhile is left out."""
    found = []
    for path in sorted((run_dir / LIVE).glob("*.json")):
        try:
            found.append(json.loads(path.read_text()))
        except FileNotFoundError:
            continue
    return found
