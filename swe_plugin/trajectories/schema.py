"""Rollout results as JSON, and back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Hashable, Mapping
from functools import cache
from typing import Any, cast

from swe_plugin.types import (
    AttemptFailure,
    ExecResult,
    Grade,
    Message,
    Phase,
    RolloutResult,
    Segment,
    Span,
    StopReason,
    Task,
    TestStatus,
    ToolCall,
    Turn,
    Usage,
)

__all__ = ["FORMAT", "from_json", "to_json", "tokens_to_json"]

FORMAT = "swe-plugin-trajectory-1"
"""Value of the key ``format``; changes with every incompatible change."""

_TOKENS = ("ids", "mask", "log_probs", "weight_versions")
_ELSEWHERE = ("task", "patch", "grade", "stop", "segments")


def to_json(result: RolloutResult, *, step: int, phase: str) -> dict[str, Any]:
    """Everything of a result but its patch, grade and tokens, which have files of their own; of each segment the
    prompt's length and the spans, as ``[start, stop, kind, turn]``."""
    plain = {name: _plain(getattr(result, name)) for name in _names(RolloutResult) if name not in _ELSEWHERE}
    head = {"format": FORMAT, "instance_id": result.task.instance_id, "step": step, "phase": phase}
    return {
        **head,
        "session": result.session,
        "stop": str(result.stop),
        **plain,
        "segments": [
            {"prompt_length": segment.prompt_length, "spans": [list(_plain(span).values()) for span in segment.spans]}
            for segment in result.segments
        ],
        "task": _plain(result.task),
    }


def tokens_to_json(result: RolloutResult) -> list[dict[str, list[Any]]]:
    """Per segment its lists of length T; the engine's `routed_experts` is not kept."""
    return [{name: list(getattr(segment, name)) for name in _TOKENS} for segment in result.segments]


def from_json(
    data: dict[str, Any], *, patch: str, grade: dict[str, Any] | None, tokens: list[dict[str, Any]]
) -> RolloutResult:
    """Inverse of `to_json` and `tokens_to_json`.

    Raises:
        ValueError: another format, missing or unknown keys, or numbers that are no token ids.
    """
    if data.get("format") != FORMAT:
        raise ValueError(f"format={data.get('format')!r}: must be {FORMAT}")
    try:
        return RolloutResult(
            task=Task.from_json(json.dumps(data["task"])),
            session=data["session"],
            stop=StopReason(data["stop"]),
            reward=data["reward"],
            grade=None if grade is None else _grade(grade),
            patch=patch,
            messages=[_message(item) for item in data["messages"]],
            turns=[Turn(**{**t, "results": [ExecResult(**r) for r in t["results"]]}) for t in data["turns"]],
            segments=[
                Segment(**{**head, **lists, "spans": [Span(*span) for span in head["spans"]]})
                for head, lists in zip(data["segments"], tokens, strict=True)
            ],
            timings=data["timings"],
            phases=[Phase(**item) for item in data.get("phases", ())],
            worker=data.get("worker", ""),
            failures=[_failure(item) for item in data["failures"]],
            n_format_errors=data["n_format_errors"],
            flags=tuple(data["flags"]),
            usage=data.get("usage", {}),
            request_id=data.get("request_id", ""),
            rewards=data.get("rewards", {}),
            notes=data.get("notes", []),
            environment=Usage(**data["environment"]) if data.get("environment") else None,
        )
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"not a trajectory: {type(error).__name__}: {error}") from error


def _plain(value: Any) -> Any:
    """As `dataclasses.asdict`, which copies every leaf, but of anything and without copies."""
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        return {name: _plain(getattr(value, name)) for name in _names(cast("Hashable", type(value)))}
    return value


@cache
def _names(kind: Hashable) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))  # type: ignore[arg-type]


def _message(data: dict[str, Any]) -> Message:
    return Message(**{**data, "tool_calls": tuple(ToolCall(**call) for call in data["tool_calls"])})


def _failure(data: dict[str, Any]) -> AttemptFailure:
    return AttemptFailure(**{**data, "stop": StopReason(data["stop"]) if data["stop"] else None})


def _grade(data: dict[str, Any]) -> Grade:
    statuses = {test_id: TestStatus(status) for test_id, status in data["statuses"].items()}
    return Grade(**{**data, "statuses": statuses, "flags": tuple(data["flags"])})
