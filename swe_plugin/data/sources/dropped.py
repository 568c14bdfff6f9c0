"""Why rows are left out."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Dropped", "Reason"]


class Reason(StrEnum):
    """What the summary of `swe-plugin prepare` counts."""

    BAD_ROW = "bad row"
    EMPTY_STATEMENT = "empty statement"
    NO_BASE = "missing branch or base commit"
    BAD_TESTS = "unparsable test lists"
    NO_TESTS = "no test that decides"
    NO_COMMAND = "no test command"
    NO_IMAGE = "no image"
    DUPLICATE = "duplicate"
    FILTERED = "filtered out"
    NOT_KEPT = "not in the keep-list"
    TOO_LONG = "statement too long"
    TOO_MANY_TESTS = "too many tests"
    SLICED = "outside the slice"


class Dropped(ValueError):
    """A row is left out. Counted and reported, never fatal.

    Args:
        reason: what it counts as.
        detail: what exactly, for the report.
    """

    def __init__(self, reason: Reason, detail: str = "") -> None:
        self.reason, self.detail = reason, detail
        super().__init__(f"{reason}: {detail}" if detail else str(reason))
