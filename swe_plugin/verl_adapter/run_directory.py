"""One directory per run: ``<swe.output.dir>/<swe.output.run>/``."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from swe_plugin.errors import ConfigError

__all__ = ["claim", "metrics_file"]


def claim(parent: Path, name: str, now: datetime) -> Path:
    """Create the directory of this run.

    Args:
        parent: directory of all runs.
        name: a name chosen by the user; the directory may exist, and verl then resumes from its last
            checkpoint. Empty: a new name made from `now`, never one that exists.
        now: local time.

    Returns:
        Absolute path.

    Raises:
        ConfigError: the directory cannot be made.
    """
    stamp = now.strftime("%Y-%m-%d_%H-%M-%S")
    parent = parent.expanduser().absolute()
    candidate = parent / (name or stamp)
    attempt = 1
    while True:
        try:
            candidate.mkdir(parents=True, exist_ok=bool(name))
        except FileExistsError as error:
            if name:
                raise ConfigError("swe.output.run", name, f"{candidate} is not a directory") from error
            attempt += 1
            candidate = parent / f"{stamp}-{attempt}"
        except OSError as error:
            raise ConfigError("swe.output.dir", str(parent), f"cannot write there: {error.strerror}") from error
        else:
            return candidate


def metrics_file(run: Path) -> Path:
    """File for verl's metrics, one JSON object per step; a resumed run gets a further one, verl would empty it."""
    path, attempt = run / "metrics.jsonl", 1
    while path.exists():
        attempt += 1
        path = run / f"metrics-{attempt}.jsonl"
    return path
