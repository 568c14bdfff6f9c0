"""The hidden tests of the demo judge what a function returns, whatever the code under test does around it."""

import subprocess
import sys

import pytest

from swe_plugin.data.demo import demo_tasks
from swe_plugin.grading.parsers import parser
from swe_plugin.types import TestStatus

TASK = demo_tasks()[0]
MODULE = next(path for path in TASK.image.files if path.endswith(".py"))
BUGGY = TASK.image.files[MODULE]
IDS = [*TASK.grading.fail_to_pass, *TASK.grading.pass_to_pass]
PRINT_ALL = f"for name in {IDS!r}: print('PASSED', name, flush=True)\n"
FORGERIES = {
    "verdict printed, then exit": f"import os\n{PRINT_ALL}os._exit(0)\n",
    "verdict printed at exit": f"import atexit, os\n@atexit.register\ndef last():\n    {PRINT_ALL}    os._exit(0)\n",
    "print replaced": "import builtins\n"
    "def swap(*words, real=print, **more):\n    real(*[str(w).replace('FAILED', 'PASSED') for w in words], **more)\n"
    "builtins.print = swap\n",
    "secret word asked for": f"import sys\nword = sys.stdin.readline().strip()\n{PRINT_ALL.replace('(', '(word, ', 1)}",
}
EQUAL_TO_ALL = (
    "class Kind(type):\n    __eq__ = lambda self, other: True\n    __hash__ = None\n"
    "class Any(metaclass=Kind):\n    __eq__ = lambda self, other: True\n"
)


def statuses(directory, source):
    """Status of each test id when `source` is the module under test."""
    (directory / MODULE).write_text(source)
    for path, text in TASK.grading.tests.items():
        (directory / path).write_text(text)
    command = [sys.executable, *TASK.grading.command[1:]]
    run = subprocess.run(command, cwd=directory, input="w0rd\n", capture_output=True, text=True, check=False)
    return parser(TASK.grading.parser, TASK)(run.stdout + run.stderr, "w0rd")


def repaired():
    lines = BUGGY.splitlines(keepends=True)
    fix = next(line[1:] for line in TASK.gold_patch.splitlines(keepends=True) if line.startswith("+    return"))
    return "".join([*lines[:2], fix, *lines[3:]])


def test_the_fix_passes_everything(tmp_path):
    assert statuses(tmp_path, repaired()) == dict.fromkeys(IDS, TestStatus.PASSED)


def test_the_bug_fails_what_it_should(tmp_path):
    found = statuses(tmp_path, BUGGY)
    assert {found[name] for name in TASK.grading.fail_to_pass} == {TestStatus.FAILED}
    assert {found[name] for name in TASK.grading.pass_to_pass} == {TestStatus.PASSED}


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES)
def test_a_verdict_cannot_be_forged(tmp_path, forgery):
    found = statuses(tmp_path, BUGGY + "\n\n" + forgery)
    assert {found[name] for name in TASK.grading.fail_to_pass} == {TestStatus.FAILED}


def test_a_value_that_says_it_equals_everything_does_not_pass(tmp_path):
    found = statuses(tmp_path, EQUAL_TO_ALL + BUGGY.replace("return ", "return Any() or ", 1))
    assert {found[name] for name in TASK.grading.fail_to_pass} == {TestStatus.FAILED}


def test_the_code_under_test_cannot_look_the_answers_up(tmp_path):
    found = statuses(
        tmp_path, BUGGY + f"\n\nopen('seen', 'w').write(open({next(iter(TASK.grading.tests))!r}).read())\n"
    )
    assert (tmp_path / "seen").read_text() == ""
    assert set(found.values()) == {TestStatus.FAILED}
