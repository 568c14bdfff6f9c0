"""Tasks that are good, and tasks that are bad in each way."""

from __future__ import annotations

import dataclasses
import difflib
import sys

from swe_plugin.types import GradingSpec, Image, Task

SHELL = "add() { echo $(($1 - $2)); }\n"
HIDDEN = '. ./calc.sh; [ "$(add 1 2)" = 3 ] && echo PASSED two || echo FAILED two; echo PASSED still\n'


def diff(path, before, after):
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), f"a/{path}", f"b/{path}")
    return "".join(lines)


GOOD = Task(
    "good",
    "add subtracts",
    image=Image(files={"calc.sh": SHELL}),
    grading=GradingSpec(
        command=("bash", "hidden.sh"),
        tests={"hidden.sh": HIDDEN},
        fail_to_pass=("two",),
        pass_to_pass=("still",),
        timeout_s=20.0,
    ),
    gold_patch=diff("calc.sh", SHELL, SHELL.replace("-", "+")),
)


def variant(name, **changes):
    """`GOOD` under another name; keys of grading as ``grading__<key>``."""
    grading = {key.removeprefix("grading__"): value for key, value in changes.items() if key.startswith("grading__")}
    rest = {key: value for key, value in changes.items() if not key.startswith("grading__")}
    return dataclasses.replace(GOOD, instance_id=name, grading=dataclasses.replace(GOOD.grading, **grading), **rest)


def script(text):
    return {"hidden.sh": text}


BAD = {
    "wrong-fix": variant("wrong-fix", gold_patch=diff("calc.sh", SHELL, SHELL.replace("-", "*"))),
    "no-fit": variant("no-fit", gold_patch=diff("calc.sh", "other\n", "another\n")),
    "no-gold": variant("no-gold", gold_patch=""),
    "proves-nothing": variant("proves-nothing", grading__tests=script("echo PASSED two; echo PASSED still\n")),
    "hangs": variant("hangs", grading__tests=script("sleep 60\n"), grading__timeout_s=0.5),
    "no-image": variant("no-image", image=Image(base="rootfs:/no/such/directory")),
}
"""Bad tasks by name."""

TESTS = """\
import calc

seen = []


def test_first():
    seen.append(1)
    assert calc.add(1, 2) == 3


def test_second():
    assert seen, "only after the first"


def test_third():
    pass
"""
PYTHON = "def add(a, b):\n    return a - b\n"
ORDERED = Task(
    "ordered",
    "add subtracts",
    image=Image(files={"calc.py": PYTHON}),
    grading=GradingSpec(
        command=(sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "--color=no", "test_calc.py"),
        parser="pytest",
        tests={"test_calc.py": TESTS},
        fail_to_pass=("test_calc.py::test_first",),
        pass_to_pass=("test_calc.py::test_second", "test_calc.py::test_third"),
        timeout_s=60,
    ),
    gold_patch=diff("calc.py", PYTHON, PYTHON.replace("-", "+")),
)
"""Its second test passes only after its first. Needs the Python of these tests."""
