"""When the trainer dispatched prompts and when it had its batch: the driver's side of a timeline.

The manager and the replay buffer live in one process and know nothing of each other; both write here.
"""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path

from swe_plugin.trajectories.timeline import EVENTS_FILE

__all__ = ["note", "write_to"]

logger = logging.getLogger(__name__)

_file: Path | None = None


def write_to(run: Path) -> None:
    """From now on events of this process go to a run's directory."""
    global _file
    _file = run / EVENTS_FILE


def note(event: str, partition: str, step: int) -> None:
    """Append an event.

    Args:
        event: ``dispatched`` or ``sampled``.
        partition: ``train`` or ``val``.
        step: of the trainer.
    """
    if _file is None:
        return
    line = json.dumps({"t": time.time(), "event": event, "partition": partition, "step": step})
    try:
        with _file.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
    except OSError:  # a full disk must not cost the step
        logger.warning("an event could not be written", exc_info=True)
