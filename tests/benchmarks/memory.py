"""Memory of processes as the kernel counts it: shared pages by share, and peaks."""

import gc
from pathlib import Path


def below(pid: int) -> list[int]:
    """All descendants of a process."""
    found: list[int] = []
    pending = [pid]
    while pending:
        for task in Path(f"/proc/{pending.pop()}/task").glob("*/children"):
            pending += (children := [int(word) for word in task.read_text().split()])
            found += children
    return found


def pss_kib(pid: int) -> int:
    """Proportional set size of a process."""
    return _field(f"/proc/{pid}/smaps_rollup", "Pss:")


class Peak:
    """The most memory, in MiB, that some processes held beyond what they held at first, each by itself."""

    def __init__(self, pids: list[int]) -> None:
        gc.collect()
        for pid in pids:
            Path(f"/proc/{pid}/clear_refs").write_text("5")  # proc(5): the peak is now what is resident now
        self._before = {pid: _field(f"/proc/{pid}/status", "VmRSS:") for pid in pids}

    def mib(self) -> list[float]:
        """Per process, in the order given."""
        return [(_field(f"/proc/{pid}/status", "VmHWM:") - before) / 1024 for pid, before in self._before.items()]


def _field(path: str, name: str) -> int:
    lines = Path(path).read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))
