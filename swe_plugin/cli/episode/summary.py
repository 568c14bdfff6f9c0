"""What came of an episode: as data, and as the last lines of `swe-plugin try`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from swe_plugin.cli.episode.runner import Tried
from swe_plugin.types import Grade, TestStatus

__all__ = ["print_summary", "summarize"]


def summarize(tried: Tried, policy: str) -> dict[str, Any]:
    """The object of ``--json``. A reward of None means that there is no verdict; `failures` says why."""
    result, task = tried.result, tried.result.task
    grade = result.grade
    return {
        "instance_id": task.instance_id,
        "policy": policy,
        "stop_reason": str(result.stop),
        "reward": result.reward,
        "resolved": None if grade is None else grade.resolved,
        "grade": grade
        and {
            "fail_to_pass": _count(grade, task.grading.fail_to_pass),
            "pass_to_pass": _count(grade, task.grading.pass_to_pass),
            "statuses": {test: str(status) for test, status in grade.statuses.items()},
        },
        "flags": list(result.flags),
        "turns": len(result.turns),
        "format_errors": result.n_format_errors,
        "timings": result.timings,
        "usage": result.usage,
        "failures": [{"phase": f.phase, "attempt": f.attempt, "error": f.error} for f in result.failures],
        "patch": result.patch,
        "record": str(tried.record) if tried.record else None,
    }


def print_summary(tried: Tried, policy: str, console: Console) -> None:
    """Patch, grade, reward, time and record."""
    data = summarize(tried, policy)
    if data["patch"]:
        console.print(Syntax("", "diff", background_color="default").highlight(data["patch"]), soft_wrap=True)
    for name, value in _rows(data):
        console.print(Text.assemble((f"{name:<14}", "bold"), value), soft_wrap=True)


def _rows(data: dict[str, Any]) -> list[tuple[str, str]]:
    grade = data["grade"]
    rows = [("stopped by", data["stop_reason"])]
    if data["reward"] is None:
        rows.append(("reward", "none: no verdict"))
    else:
        for name in ("fail_to_pass", "pass_to_pass"):
            rows.append((name.replace("_", " "), f"{grade[name]['passed']} of {grade[name]['total']} passed"))
        rows.append(("reward", f"{data['reward']:g} ({'resolved' if data['resolved'] else 'not resolved'})"))
    if data["flags"]:
        rows.append(("flags", ", ".join(data["flags"])))
    rows.append(("seconds", ", ".join(f"{name} {value:.2f}" for name, value in data["timings"].items())))
    if data["usage"]:
        rows.append(("used", ", ".join(f"{name} {value:g}" for name, value in data["usage"].items())))
    return [*rows, ("record", data["record"] or "none")]


def _count(grade: Grade, tests: Sequence[str]) -> dict[str, int]:
    passed = sum(grade.statuses.get(test) is TestStatus.PASSED for test in tests)
    return {"passed": passed, "total": len(tests)}
