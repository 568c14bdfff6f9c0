"""The vocabulary: what a task, an image, a segment, a grade and a rollout result are.

Plain data without behaviour that needs a heavy import. Everything here can be pickled to a Ray
worker; `Task` also round-trips through JSON because it travels in a dataset column.
"""

from __future__ import annotations

from swe_plugin.types.command import ExecResult, Usage
from swe_plugin.types.conversation import Message, Reply, ToolCall
from swe_plugin.types.grade import Grade, TestStatus
from swe_plugin.types.result import AttemptFailure, Phase, RolloutResult, StopReason, Turn
from swe_plugin.types.segment import Segment, Span
from swe_plugin.types.task import GradingSpec, Image, Task

__all__ = [
    "AttemptFailure",
    "ExecResult",
    "Grade",
    "GradingSpec",
    "Image",
    "Message",
    "Phase",
    "Reply",
    "RolloutResult",
    "Segment",
    "Span",
    "StopReason",
    "Task",
    "TestStatus",
    "ToolCall",
    "Turn",
    "Usage",
]
