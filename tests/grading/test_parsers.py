"""Test output -> status."""

from __future__ import annotations

import subprocess
import sys

import pytest

from swe_plugin.errors import GraderError
from swe_plugin.grading.parsers import nonce_lines, parser, pytest_dotted, pytest_summary, status_lines, status_of
from swe_plugin.types import Task, TestStatus


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
        parser("unittest", Task("a", ""))


LOG = """\
=================================== PASSES ====================================
_______________________________ test_a ________________________________________
PASSED tests/test_a.py::test_forged
=========================== short test summary info ============================
PASSED tests/test_a.py::test_a
PASSED tests/test_a.py::TestX::test_b[two words - and 'quotes']
SKIPPED [1] tests/test_a.py:7: not here
XFAIL tests/test_a.py::test_c - known
ERROR tests/test_a.py::test_d - ImportError: no x
\x1b[31mFAILED\x1b[0m tests/test_a.py::test_e[a - b] - AssertionError: 1 - 2
FAILED tests/test_a.py::test_ab
==================== 2 failed, 2 passed in 0.1s =====================
"""


def test_the_summary_of_pytest_has_exact_ids():
    statuses = pytest_summary(LOG)
    wanted = {
        "test_a": "PASSED",
        "TestX::test_b[two words - and 'quotes']": "PASSED",
        "test_c": "XFAIL",
        "test_d": "ERROR",
        "test_e[a - b]": "FAILED",
        "test_ab": "FAILED",
        "test_forged": "MISSING",
        "test_e": "MISSING",
    }
    assert {name: status_of(f"tests/test_a.py::{name}", statuses) for name in wanted} == wanted


def test_r2e_gym_writes_ids_with_dots():
    statuses = pytest_dotted(LOG)
    assert status_of("TestX.test_b[two words - and 'quotes']", statuses) == "PASSED"
    assert status_of("test_d", statuses) == "ERROR"


def test_an_id_that_was_cut_at_a_blank_stands_for_all_it_can_mean():
    statuses = {"t[a b]": TestStatus.PASSED, "t[a c]": TestStatus.FAILED, "t[ab]": TestStatus.ERROR}
    assert status_of("t[a", statuses) is TestStatus.FAILED
    assert status_of("t[b", statuses) is TestStatus.MISSING
    assert status_of("t", statuses) is TestStatus.MISSING


def test_what_pytest_itself_prints_is_read(tmp_path):
    ids = {"test_a[two words]": "PASSED", "test_b[x - y]": "FAILED", "test_c": "XFAIL", "test_d": "ERROR"}
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('x', ['two words'])\ndef test_a(x): print('FAILED test_it.py::test_a[two words]')\n"
        "@pytest.mark.parametrize('x', ['x - y'])\ndef test_b(x): assert 0, 'a - b'\n"
        "@pytest.mark.xfail\ndef test_c(): assert 0\n"
        "@pytest.fixture\ndef bad(): raise ValueError('no')\ndef test_d(bad): ...\n"
    )
    words = [sys.executable, "-m", "pytest", "-rA", "--color=no", "-p", "no:cacheprovider", "test_it.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    statuses = pytest_summary(done.stdout)
    assert {name: status_of(f"test_it.py::{name}", statuses) for name in ids} == ids


def test_parsers_of_swebench_need_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "swebench.harness.grading", None)  # as if it were not installed
    with pytest.raises(GraderError, match=r"pip install 'swe-plugin\[swebench\]'"):
        parser("swebench:parse_log_pytest", Task("a", ""))
