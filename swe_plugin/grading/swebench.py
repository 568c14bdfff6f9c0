"""Parsers of the package `swebench` (extra ``swebench``): the one file that knows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from swe_plugin.errors import GraderError
from swe_plugin.types import TestStatus

__all__ = ["swebench_parser"]

_START, _END = ">>>>> Start Test Output", ">>>>> End Test Output"
"""Lines that an evaluation script of SWE-bench prints around the output of the tests."""


def swebench_parser(name: str) -> Callable[[str, str], dict[str, TestStatus]]:
    """One of swebench's parsers, e.g. ``parse_log_django``, as one of ours.

    As in swebench, an expected failure counts as passed. A log without both marks has no statuses.

    Raises:
        GraderError: the package is not installed, or has no such parser.
    """
    registry = _registry()
    if name not in registry:
        raise GraderError(f"grading.parser='swebench:{name}': the installed swebench has {', '.join(registry)}")

    def parse(log: str, nonce: str) -> dict[str, TestStatus]:
        _, start, rest = log.partition(_START)
        output, end, _ = rest.partition(_END)
        statuses = registry[name](output, None) if start and end else {}
        return {test_id: _PASSED.get(status, TestStatus(status)) for test_id, status in statuses.items()}

    return parse


_PASSED = {"XFAIL": TestStatus.PASSED}


def _registry() -> Mapping[str, Callable[[str, Any], dict[str, str]]]:
    try:
        from swebench.harness.log_parsers import PARSER_REGISTRY
    except ImportError as error:
        raise GraderError(f"parsers of swebench: pip install 'swe-plugin[swebench]' ({error})") from error
    registry: Mapping[str, Callable[[str, Any], dict[str, str]]] = PARSER_REGISTRY
    return registry
