"""Test suites that are run for their logs: pytest in several moods, and unittest, whose verbose output Django has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_PLAIN = """\
import pytest
def test_good(): print("FAILED tests/test_it.py::test_forged")
def test_bad(): assert 1 == 2, "one - two"
class TestTable:
    def test_inside(self): ...
    @pytest.mark.xfail(reason="known")
    def test_known(self): assert 0
@pytest.mark.skip(reason="not here")
def test_skipped(): ...
@pytest.fixture
def broken(): raise ValueError("no - way")
def test_error(broken): ...
"""
_PARAMETERS = """\
import pytest
@pytest.mark.parametrize("path", ["/etc/x/y.txt", "//host/x", "a b", "x - y", "naïve", "*.py", "[x]", ""])
def test_path(path): assert "-" not in path
@pytest.mark.parametrize("n", range(30))
def test_many(n): assert n % 7
"""
_BROKEN = """\
import pytest
import warnings
def test_warns(): warnings.warn("old")
def test_strict(): pytest.fail("said so", pytrace=False)
@pytest.mark.xfail(strict=True)
def test_unexpected(): ...
@pytest.mark.xfail
def test_loose(): ...
def test_long(): assert list(range(100)) == list(range(1, 101))
class TestSetUp:
    def setup_method(self): raise RuntimeError("no")
    def test_never(self): ...
"""
PYTEST_SUITES = {
    "plain": (_PLAIN, ()),
    "verbose": (_PLAIN, ("-v",)),
    "colour": (_PLAIN, ("--color=yes", "-v")),
    "parameters": (_PARAMETERS, ()),
    "short": (_PARAMETERS, ("--tb=no", "-q")),
    "broken": (_BROKEN, ("-W", "ignore")),
}
"""Name -> source, and more words for pytest."""
UNITTEST = {
    "test_good (test_it.Forms.test_good)": "PASSED",
    "test_bad (test_it.Forms.test_bad)": "FAILED",
    "test_error (test_it.Forms.test_error)": "ERROR",
    "test_skipped (test_it.Forms.test_skipped)": "SKIPPED",
    "A sentence about it.": "PASSED",
}.items()
"""What the suite of `run_unittest` says at least."""
_UNITTEST = """\
import sys, unittest
class Forms(unittest.TestCase):
    def test_good(self): ...
    def test_bad(self): self.assertEqual(1, 2)
    def test_error(self): raise ValueError("no")
    @unittest.skip("not here")
    def test_skipped(self): ...
    def test_noisy(self): print("Internal Server Error: /x/", file=sys.stderr)
    def test_described(self):
        \"\"\"A sentence about it.\"\"\"
    def test_parts(self):
        for n in range(3):
            with self.subTest(n=n): self.assertNotEqual(n, 1)
"""


def run_pytest(suite: str, directory: Path) -> str:
    """Its log between swebench's marks."""
    source, words = PYTEST_SUITES[suite]
    (directory / "tests").mkdir()
    (directory / "tests" / "test_it.py").write_text(source)
    return _marked(["-m", "pytest", "-rA", "-p", "no:cacheprovider", "-p", "no:xdist", *words, "tests"], directory)


def run_unittest(directory: Path) -> str:
    """The same of unittest."""
    (directory / "test_it.py").write_text(_UNITTEST)
    return _marked(["-m", "unittest", "-v", "test_it"], directory)


def _marked(words: list[str], directory: Path) -> str:
    done = subprocess.run(
        [sys.executable, *words], cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 1, done.stdout
    return f"+ : '>>>>> Start Test Output'\n{done.stdout}+ : '>>>>> End Test Output'\n"
