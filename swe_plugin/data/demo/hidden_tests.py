"""The hidden tests of a demo task: plain asserts, one status line per test id, no test framework."""

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

_TEMPLATE = '''"""Run as ``python3 -I -S {file}``: prints ``PASSED <id>`` or ``FAILED <id>`` for each test."""

import importlib
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.getcwd())


def load():
    return importlib.import_module("{module}")


def check(cases):
    function = load().{function}
    for a, b, expected in cases:
        result = function(a, b)
        assert (type(result), result) == (type(expected), expected), (a, b, result, expected)


{cases}
def {helper_test}():
    module = load()
    assert [module.{helper}(n) for n in (0, 5, 8)] == [0, 2, 4]


def {signature_test}():
    code = load().{function}.__code__
    assert code.co_varnames[: code.co_argcount] == ("a", "b")


for test in ({tests}):
    try:
        test()
    except Exception as error:
        print("FAILED {file}::" + test.__name__)
        print(type(error).__name__, error, file=sys.stderr)
    else:
        print("PASSED {file}::" + test.__name__)
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
    cases = ""
    for case, pairs in PROBES.items():
        expected = [(a, b, evaluate(behaviour, a, b)) for a, b in pairs]
        cases += f"def test_{case}():\n    check({expected!r})\n\n\n"
    return _TEMPLATE.format(
        file=TEST_FILE,
        module=module,
        function=function,
        helper=helper,
        cases=cases,
        helper_test=_HELPER_TEST,
        signature_test=_SIGNATURE_TEST,
        tests=", ".join([*(f"test_{case}" for case in PROBES), _HELPER_TEST, _SIGNATURE_TEST]),
    )
