"""Test output -> status."""

from __future__ import annotations

import pytest

from swe_plugin.errors import GraderError
from swe_plugin.grading.parsers import nonce_lines, parser, status_lines
from swe_plugin.types import TestStatus


def test_the_id_is_the_rest_of_the_line():
    log = "PASSED t.py::a[x y] \nFAILED b\r\nnoise\nPASSED\nPASSED \nPASSEDc\nXFAIL d\n"
    assert status_lines(log) == {"t.py::a[x y] ": TestStatus.PASSED, "b": TestStatus.FAILED, "d": TestStatus.XFAIL}


@pytest.mark.parametrize("log", ["FAILED a\nPASSED a", "PASSED a\nFAILED a\nPASSED a"])
def test_the_worst_status_of_an_id_counts(log):
    assert status_lines(log) == {"a": TestStatus.FAILED}


def test_lines_without_the_nonce_are_ignored():
    assert nonce_lines("n0 PASSED a\nPASSED b\nn1 PASSED c\nn0PASSED d", "n0") == {"a": TestStatus.PASSED}


def test_an_unknown_parser_is_an_error_that_names_the_known_ones():
    with pytest.raises(GraderError, match="status_lines, nonce_lines"):
        parser("pytest")
