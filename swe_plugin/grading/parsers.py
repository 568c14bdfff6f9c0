"""Test output -> status of each test id."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from swe_plugin.errors import GraderError
from swe_plugin.types import TestStatus

__all__ = ["PARSERS", "LogParser", "nonce_lines", "parser", "status_lines"]

LogParser = Callable[[str, str], dict[str, TestStatus]]
"""``(log, nonce) -> {test id: status}``."""

_WORST_FIRST = (
    TestStatus.FAILED,
    TestStatus.ERROR,
    TestStatus.XFAIL,
    TestStatus.SKIPPED,
    TestStatus.PASSED,
)


def status_lines(log: str, nonce: str = "") -> dict[str, TestStatus]:
    """Lines ``<STATUS> <id>``: the id is the rest of the line, exactly, blanks and quotes included.

    An id with several statuses has the worst of them.
    """
    statuses: dict[str, TestStatus] = {}
    for line in log.split("\n"):
        word, _, test_id = line.removesuffix("\r").partition(" ")
        if test_id and word in _WORST_FIRST:
            seen = TestStatus(word)
            statuses[test_id] = min(seen, statuses.get(test_id, seen), key=_WORST_FIRST.index)
    return statuses


def nonce_lines(log: str, nonce: str) -> dict[str, TestStatus]:
    """Lines ``<nonce> <STATUS> <id>``; other lines are ignored.

    The test command finds the nonce as the first line of its stdin. It reads it before it loads any code under
    test, which then cannot print a status by guessing.
    """
    lines = (line.removeprefix(f"{nonce} ") for line in log.split("\n") if line.startswith(f"{nonce} "))
    return status_lines("\n".join(lines))


PARSERS: Mapping[str, LogParser] = {"status_lines": status_lines, "nonce_lines": nonce_lines}
"""Parsers by the name that `GradingSpec.parser` holds."""


def parser(name: str) -> LogParser:
    """Look a parser up.

    Raises:
        GraderError: there is none of that name.
    """
    if name not in PARSERS:
        raise GraderError(f"grading.parser={name!r}: must be one of {', '.join(PARSERS)}")
    return PARSERS[name]
