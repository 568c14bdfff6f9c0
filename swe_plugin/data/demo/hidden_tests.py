"""The hidden tests of a demo task: values are compared, one status line per test id, no test framework.

Code under test that shared a process with its test could print the verdict, change it, or look it up.
"""

from __future__ import annotations

from swe_plugin.data.demo.behaviours import Behaviour, evaluate

__all__ = ["PROBES", "TEST_FILE", "fail_to_pass", "hidden_test", "pass_to_pass"]

TEST_FILE = "test_hidden.py"
"""Path of the injected test file, relative to the repository."""

PROBES: dict[str, tuple[tuple[int, int], ...]] = {
    "small_numbers": ((2, 7), (7, 2), (4, 4)),
    "large_numbers": ((60, 95), (95, 60), (31, 31)),
}
"""Case -> pairs (a, b). Less, more and equal: on each case every two behaviours differ somewhere, so each
F2P id alone fails for every wrong body."""

_TEMPLATE = '''\
"""Run as ``python3 -I -S {file}``: reads a secret word, prints ``<word> PASSED <id>`` or ``<word> FAILED <id>``.

The code under test runs in a process of its own, which learns neither the word nor what is expected.
"""

import os
import sys

WORD = sys.stdin.readline().strip()
os.unlink(__file__)  # nobody reads from it what is expected

PROBE = """
import os, sys
sys.dont_write_bytecode = True
sys.path.insert(0, os.getcwd())
import {module} as module
for expression in sys.argv[1:]:
    try:
        print(repr(eval(expression)))
    except Exception as error:
        print("raised", type(error).__name__)
"""
TESTS = {tests!r}

expressions = [expression for cases in TESTS.values() for expression, _ in cases]
read_end, write_end = os.pipe()
pid = os.posix_spawn(
    sys.executable,
    [sys.executable, "-I", "-S", "-c", PROBE, *expressions],
    os.environ,
    file_actions=[(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, write_end, 1)],
)
os.close(write_end)
with open(read_end, errors="replace") as output:
    found = iter(output.read().splitlines()[-len(expressions) :])
os.waitpid(pid, 0)
for name, cases in TESTS.items():
    passed = True
    for expression, expected in cases:
        value = next(found, "nothing")
        if value != expected:
            passed = False
            print(expression, "is", value[:100], "instead of", expected, file=sys.stderr)
    print(WORD, "PASSED" if passed else "FAILED", "{file}::" + name)
'''
_HELPER_TEST, _SIGNATURE_TEST = "test_helper", "test_signature"


def fail_to_pass() -> list[str]:
    """Ids that fail for every wrong body."""
    return [f"{TEST_FILE}::test_{case}" for case in PROBES]


def pass_to_pass() -> list[str]:
    """Ids that pass before and after the fix: the helper, and the signature of the function."""
    return [f"{TEST_FILE}::{name}" for name in (_HELPER_TEST, _SIGNATURE_TEST)]


def hidden_test(module: str, function: str, behaviour: Behaviour, helper: str) -> str:
    """Text of the test file for `function` of `module` when it should show `behaviour`."""
    tests = {
        f"test_{case}": [(f"module.{function}({a}, {b})", repr(evaluate(behaviour, a, b))) for a, b in pairs]
        for case, pairs in PROBES.items()
    }
    tests[_HELPER_TEST] = [(f"module.{helper}({n})", str(n // 2)) for n in (0, 5, 8)]
    code = f"module.{function}.__code__"
    tests[_SIGNATURE_TEST] = [(f"{code}.co_varnames[:{code}.co_argcount]", "('a', 'b')")]
    return _TEMPLATE.format(file=TEST_FILE, module=module, tests=tests)
