"""Writing one section of docs/benchmarks.md, with what it takes to judge and repeat the numbers."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"


def machine() -> str:
    """Date, commit, cores and memory, in one line."""
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":/", f":!{PAGE}")  # the page is written to
    commit = (_git("rev-parse", "--short", "HEAD") or "unknown") + ("-dirty" if changed else "")
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    when = datetime.now(UTC).date().isoformat()
    return f"{when}, commit {commit}, {cores} cores, {gib:.0f} GiB, {platform.machine()}"


def load() -> str:
    """How busy the machine is, this process included."""
    return f"load {os.getloadavg()[0]:.0f} at the end"


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], capture_output=True, text=True, cwd=PAGE.parent)
    return done.stdout.strip()


def write_section(name: str, text: str, page: Path = PAGE) -> None:
    """Replace what stands between ``<!-- name: begin -->`` and ``<!-- name: end -->``."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"{page} has no section {name}")
    page.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}", encoding="utf-8")
