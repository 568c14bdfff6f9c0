"""Tasks made and validated, end to end: `python tests/benchmarks/bench_validate.py` (`make bench-validate`).

Makes ten tasks of each of ten source distributions (pip downloads them) and validates all of them, both with one job
per core. `FOLDER=<folder of a bench>` goes on where an interrupted one stopped; what was done before is then not timed.
Prints a table and writes it to docs/benchmarks.md. Exit code 1 if fewer than 100 tasks were made.
`SOURCES="idna==3.10 parse==1.20.2"` tries it with these alone: less time, and nothing is written.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from page import machine, write_section

PACKAGES = (
    "cachetools==6.2.0",
    "h11==0.16.0",
    "humanize==4.12.3",
    "idna==3.10",
    "inflection==0.5.1",
    "itsdangerous==2.2.0",
    "parse==1.20.2",
    "sqlparse==0.5.3",
    "tabulate==0.9.0",
    "toolz==1.0.0",
)
PER_SOURCE = 10
REPEAT, ORDERS = 2, 1


def swe_plugin(*words: str) -> tuple[dict[str, Any], float]:
    """What a command prints with ``--json``, and how long it took, in seconds."""
    command = [sys.executable, "-m", "swe_plugin.cli", *words, "--json"]
    began = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    took = time.monotonic() - began
    if done.returncode not in (0, 1):  # 1: some tasks are not good, which is a result
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}")
    return json.loads(done.stdout), took


def _minutes(seconds: float | None, tasks: int) -> str:
    return "interrupted, not timed" if seconds is None else f"{seconds / 60:.1f} min, {seconds / tasks:.1f} s a task"


def render(
    made: dict[str, Any], made_s: float | None, checked: dict[str, Any], checked_s: float, done: list[Any]
) -> str:
    """The section of the page."""
    projects, tasks = made["projects"], checked["tasks"]
    kinds = sum((Counter(project["kinds"]) for project in projects), Counter[str]())
    gradings = tasks * (2 * REPEAT + ORDERS)
    seconds = [finding["total_s"] for finding in done]
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in checked["verdicts"].items())
    per_minute = 60 * tasks / checked_s
    lines = [
        f"`make bench-validate` ({machine()}), {len(projects)} packages, {tasks} tasks, one job per core:\n",
        "| what | |",
        "|---|---|",
        f"| making them, images included | {_minutes(made_s, tasks)} |",
        f"| bugs tried, kinds among the tasks | {sum(p['bugs_tried'] for p in projects)}, {len(kinds)} |",
        f"| validating them, {gradings} gradings | {checked_s / 60:.1f} min, {per_minute:.1f} tasks a minute |",
        f"| wall-clock seconds per grading | {checked_s / gradings:.2f} |",
        f"| seconds of a task, median and slowest | {median(seconds):.1f}, {max(seconds):.1f} |",
        f"| verdicts | {verdicts} |",
        f"| tasks with an id on the wrong list | {len(checked['mislabelled'])} |",
        "\n| package | tests | seconds of its suite | bugs tried | tasks | easy, medium, hard |",
        "|---|---|---|---|---|---|",
    ]
    for project in projects:
        levels = ", ".join(str(project["difficulty"].get(name, 0)) for name in ("easy", "medium", "hard"))
        suite = f"{project['tests_seconds']:.1f}"
        row = (project["project"], project["tests"], suite, project["bugs_tried"], project["tasks"], levels)
        lines.append(f"| {' | '.join(map(str, row))} |")
    return "\n".join(lines)


def main() -> int:
    """Make, validate, print, write."""
    folder = Path(os.environ.get("FOLDER") or tempfile.mkdtemp(prefix="bench-validate-"))
    print(f"FOLDER={folder}", flush=True)
    sources = os.environ.get("SOURCES", "").split() or PACKAGES
    made_words = [*sources, "--count", str(PER_SOURCE), "--with", "freezegun", "--out", str(folder / "made")]
    kept = folder / "made.json"
    if not kept.exists():
        interrupted = (folder / "made").exists()
        found, took = swe_plugin("synth", *made_words)
        kept.write_text(json.dumps((found, None if interrupted else took)))
    made, made_s = json.loads(kept.read_text())
    words = [made["tasks"], "--out", str(folder / "checked"), "--repeat", str(REPEAT), "--orders", str(ORDERS)]
    checked, checked_s = swe_plugin("validate", *words)
    done = [json.loads(line) for line in (folder / "checked/done.jsonl").read_text().splitlines()]
    text = render(made, made_s, checked, checked_s, done)
    print(text)
    if sources is PACKAGES:
        write_section("bench-validate", text)
    return int(checked["tasks"] < PER_SOURCE * len(sources))


if __name__ == "__main__":
    sys.exit(main())
