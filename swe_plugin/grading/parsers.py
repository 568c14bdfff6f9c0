"""Test output -> status of each test id."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from swe_plugin.errors import GraderError
from swe_plugin.types import Task, TestStatus

__all__ = ["PARSERS", "SWEBENCH", "LogParser", "nonce_lines", "parser", "pytest_summary", "status_lines", "status_of"]

LogParser = Callable[[str, str], dict[str, TestStatus]]
"""``(log, nonce) -> {test id: status}``."""

SWEBENCH = "swebench:"
"""Prefix of the parsers of the package `swebench`."""
_PYTEST_SUMMARY = "short test summary info"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_MAX_DASHES = 8
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
            _add(statuses, test_id, TestStatus(word))
    return statuses


def nonce_lines(log: str, nonce: str) -> dict[str, TestStatus]:
    """Lines ``<nonce> <STATUS> <id>``; other lines are ignored.

    The test command finds the nonce as the first line of its stdin. It reads it before it loads any code under
    test, which then cannot print a status by guessing.
    """
    lines = (line.removeprefix(f"{nonce} ") for line in log.split("\n") if line.startswith(f"{nonce} "))
    return status_lines("\n".join(lines))


def pytest_summary(log: str, nonce: str = "") -> dict[str, TestStatus]:
    """The short summary that ends ``pytest -rA``: ``<STATUS> <node id>``, a failure's message behind `` - ``.

    A node id may hold `` - `` itself, so a failure counts for each id that its line can mean. What a test prints
    comes before the summary: what passes there is not read. What is printed after it may look like another one, so what
    fails in any of them has failed.
    """
    statuses: dict[str, TestStatus] = {}
    last = max(log.rfind(_PYTEST_SUMMARY), 0)
    for part, passes in ((log[log.find(_PYTEST_SUMMARY) : last] if last else "", False), (log[last:], True)):
        for line in part.split("\n"):
            word, _, rest = _COLOUR.sub("", line).rstrip("\r").partition(" ")
            if rest and word in _WORST_FIRST and (passes or word != TestStatus.PASSED):
                parts = [rest] if word == TestStatus.PASSED else rest.split(" - ", _MAX_DASHES)
                for end in range(1, len(parts) + 1):
                    _add(statuses, " - ".join(parts[:end]), TestStatus(word))
    return statuses


def pytest_dotted(log: str, nonce: str = "") -> dict[str, TestStatus]:
    """The same with R2E-Gym's ids: without the file, the parts joined by dots."""
    statuses: dict[str, TestStatus] = {}
    for test_id, status in pytest_summary(log).items():
        _, separator, name = test_id.partition("::")
        _add(statuses, name.replace("::", ".") if separator else test_id, status)
    return statuses


def status_of(test_id: str, statuses: Mapping[str, TestStatus]) -> TestStatus:
    """Status of one id, exactly that one.

    Lists of the SWE-bench family hold ids that were cut at their first blank, within brackets. Such an id, and no
    other, stands for all that begin with it and a blank; their worst status counts.
    """
    if test_id in statuses or test_id.count("[") <= test_id.count("]"):
        return statuses.get(test_id, TestStatus.MISSING)
    meant = [status for key, status in statuses.items() if key.startswith(f"{test_id} ")]
    return min(meant, key=_WORST_FIRST.index, default=TestStatus.MISSING)


PARSERS: Mapping[str, LogParser] = {
    "status_lines": status_lines,
    "nonce_lines": nonce_lines,
    "pytest": pytest_summary,
    "pytest_dotted": pytest_dotted,
}
"""Parsers by the name that `GradingSpec.parser` holds; beside them ``swebench:<name>`` (`grading.swebench`)."""


def parser(name: str, task: Task) -> LogParser:
    """Look a parser up.

    Args:
        name: of the parser.
        task: whose log it will read.

    Raises:
        GraderError: there is none of that name.
    """
    if name.startswith(SWEBENCH):
        from swe_plugin.grading.swebench import swebench_parser

        return swebench_parser(name.removeprefix(SWEBENCH), task)
    if name not in PARSERS:
        raise GraderError(f"grading.parser={name!r}: must be one of {', '.join(PARSERS)}, or {SWEBENCH}<name>")
    return PARSERS[name]


def _add(statuses: dict[str, TestStatus], test_id: str, status: TestStatus) -> None:
    statuses[test_id] = min(status, statuses.get(test_id, status), key=_WORST_FIRST.index)
