"""`Grade`: the verdict on a patch."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["Grade", "TestStatus"]


class TestStatus(StrEnum):
    """Status of one test id, in SWE-bench's words."""

    __test__ = False  # not a pytest class

    PASSED = "PASSED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"
    ERROR = "ERROR"
    XFAIL = "XFAIL"
    MISSING = "MISSING"
    """The run printed no status for the id."""


@dataclass(slots=True)
class Grade:
    """The verdict on one patch.

    Attributes:
        resolved: every F2P and P2P id has PASSED (or its expected status).
        statuses: status of each F2P and P2P id.
        flags: integrity signals, e.g. ``empty_patch``, ``tests_edited``.
        duration_s: wall-clock seconds of grading (0.0 when cached).
        cached: taken from the grade cache.
        log: the tail of the test output.
    """

    resolved: bool
    statuses: dict[str, TestStatus] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    duration_s: float = 0.0
    cached: bool = False
    log: str = ""
