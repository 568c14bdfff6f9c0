"""What a command did, and what an environment used."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ExecResult", "Usage"]


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What one command did.

    Attributes:
        stdout, stderr: decoded as UTF-8 with replacement, each cut in the middle at the output limit.
        exit_code: as the shell reports it (128 + n for signal n); -1 when `timed_out`.
        duration_s: wall-clock seconds.
        timed_out: the limit ended it; output up to then is kept.
        truncated: some output was dropped.
    """

    stdout: str
    stderr: str = ""
    exit_code: int = 0
    duration_s: float = 0.0
    timed_out: bool = False
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """What the processes of an environment used.

    Attributes:
        cpu_s: CPU seconds so far, of processes that have ended too.
        memory_mib: most memory at once, as far as it was seen.
    """

    cpu_s: float
    memory_mib: float
