"""Our statuses are those of swebench's own functions, on logs of every format that it reads."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
from swebench.harness.grading import get_logs_eval
from swebench.harness.log_parsers import PARSER_REGISTRY

from swe_plugin.grading.parsers import parser
from swe_plugin.types import Task

from .formats import FORMATS
from .suites import PYTEST_SUITES, UNITTEST, run_pytest, run_unittest

pytestmark = pytest.mark.slow

SEEDS = range(6)
PYTEST_PARSERS = [name for name in FORMATS if FORMATS[name][0].write.__name__.startswith("_pytest")]
LOGS = sum(len(forms) for forms in FORMATS.values()) * len(SEEDS) + len(PYTEST_PARSERS) * len(PYTEST_SUITES) + 1


def ours(name: str, log: str, instance_id: str = "acme__calc-1", version: str = "1.0") -> dict[str, str]:
    task = Task(instance_id, "", metadata={"version": version})
    return {test_id: str(status) for test_id, status in parser(f"swebench:{name}", task)(log, "").items()}


def theirs(name: str, log: str, instance_id: str = "acme__calc-1", version: str = "1.0") -> dict[str, str]:
    """The function itself, on what stands between the marks."""
    output = log.split(">>>>> Start Test Output")[1].split(">>>>> End Test Output")[0]
    return PARSER_REGISTRY[name](output, SimpleNamespace(instance_id=instance_id, version=version))


def test_every_parser_that_swebench_ships_is_covered_by_enough_logs():
    assert FORMATS.keys() == PARSER_REGISTRY.keys()
    assert LOGS >= 300


@pytest.mark.parametrize("name", FORMATS)
def test_written_logs_say_to_us_what_they_say_to_swebench_and_what_was_written(name):
    for form in FORMATS[name]:
        for seed in SEEDS:
            log, statuses = form.log(seed)
            found = ours(name, log, form.instance_id, form.version)
            assert found == theirs(name, log, form.instance_id, form.version)
            assert found == statuses


@pytest.mark.parametrize("suite", PYTEST_SUITES)
def test_what_pytest_prints_says_the_same(suite, tmp_path):
    log = run_pytest(suite, tmp_path)
    for name in PYTEST_PARSERS:
        found = ours(name, log)
        assert found == theirs(name, log)
        assert len(found) >= (1 if suite == "colour" else 4), name


def test_what_unittest_prints_says_the_same(tmp_path):
    log = run_unittest(tmp_path)
    found = ours("parse_log_django", log)
    assert found == theirs("parse_log_django", log)
    assert set(UNITTEST) <= set(found.items())


def test_our_own_pytest_parser_agrees_where_ids_have_no_blanks(tmp_path):
    log = run_pytest("plain", tmp_path)
    statuses = parser("pytest", Task("a", ""))(log, "")
    differ = theirs("parse_log_pytest", log).items() - {key: str(value) for key, value in statuses.items()}.items()
    assert differ == {("tests/test_it.py::test_forged", "FAILED")}, "which a test printed, and only swebench believes"


@pytest.mark.parametrize(
    "log",
    [
        "PASSED tests/a.py::b\n",
        "+ : '>>>>> Start Test Output'\nPASSED tests/a.py::b\n",
        ">>>>> Tests Errored\n+ : '>>>>> Start Test Output'\nPASSED tests/a.py::b\n+ : '>>>>> End Test Output'\n",
        # a log that was forged: nothing failed, and yet the command did
        "+ : '>>>>> Start Test Output'\nPASSED tests/a.py::b\n+ : '>>>>> End Test Output'\n>>>>> Test Exit Code: 1\n",
    ],
)
def test_logs_that_swebench_does_not_believe_have_no_statuses(log, tmp_path):
    (tmp_path / "log").write_text(log)
    spec = SimpleNamespace(log_parser="parse_log_pytest", instance_id="a-1", version="")
    assert ours("parse_log_pytest", log) == get_logs_eval(spec, str(tmp_path / "log"))[0] == {}


def test_the_extra_is_all_that_a_parser_needs():
    """In a process of its own: nothing that another test imported helps."""
    code = """
from swe_plugin.grading.swebench import swebench_parser
from swe_plugin.types import Task
swebench_parser("parse_log_tap", Task("a", ""))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_a_word_that_only_begins_like_a_status_is_no_pass():
    log = ">>>>> Start Test Output\nERROR: usage\nPASSED a.py::b\nERROR: a.py::c failed\n>>>>> End Test Output\n"
    assert ours("parse_log_pytest", log) == {"usage": "ERROR", "a.py::b": "PASSED", "a.py::c": "ERROR"}
    assert theirs("parse_log_pytest", log)["a.py::c"] == "ERROR:"
