"""A row's own evaluation script, run and read by our grader, says what it says to swebench's harness."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from data.published import SWE_BENCH_5
from swebench.harness.grading import get_logs_eval
from swebench.harness.utils import make_test_spec

from grading.local import LocalEnvironment
from swe_plugin.config import SweConfig
from swe_plugin.data.sources.row import Row
from swe_plugin.data.sources.swe_bench import SweBench
from swe_plugin.environments import EnvironmentSpec
from swe_plugin.errors import GradingAborted
from swe_plugin.grading.parsers import parser
from swe_plugin.grading.tests import TestsGrader
from swe_plugin.types import Image, Task

pytestmark = pytest.mark.slow

HIDDEN = """\
import pytest
from calc import add

def test_add(): assert add(1, 2) == 3
def test_zero(): assert add(0, 0) == 0
@pytest.mark.xfail
def test_text(): assert add("a", 1)
"""
SCRIPT = f"""\
#!/bin/bash
set -uxo pipefail
git status
cat > test_calc.py <<'EOF_114329324912'
{HIDDEN}EOF_114329324912
: '>>>>> Start Test Output'
{sys.executable} -m pytest -rA -p no:cacheprovider -p no:xdist test_calc.py
: '>>>>> End Test Output'
git checkout -q -- calc.py
"""
F2P, P2P = ["test_calc.py::test_add"], ["test_calc.py::test_zero", "test_calc.py::test_text"]
ROW = SWE_BENCH_5 | {
    "eval_script": SCRIPT,
    "FAIL_TO_PASS": json.dumps(F2P),
    "PASS_TO_PASS": json.dumps(P2P),
    "test_patch": "",
}
BUG = "def add(a, b):\n    return a - b\n"
FIX = "--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n"
FORGED = "".join(f"PASSED {test_id}\\n" for test_id in F2P + P2P)
FORGE = f"""\
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,3 @@
 def add(a, b):
     return a - b
+import os; print("{FORGED}", flush=True); os._exit(3)
"""


@pytest.fixture
def task():
    made = SweBench().task(Row(ROW))
    return dataclasses.replace(made, image=Image(files={"calc.py": BUG}))


async def graded(task: Task, patch: str):
    async with LocalEnvironment(EnvironmentSpec(task.image)) as environment:
        return await TestsGrader(SweConfig().grading).grade(task, patch, environment)


def harness(patch: str, directory) -> dict[str, str]:
    """As swebench's harness does it: its own script, both streams into one log, its own reading."""
    spec = make_test_spec(ROW)
    (directory / "calc.py").write_text(BUG)
    subprocess.run(["git", "init", "-q"], cwd=directory, check=True)
    if patch:
        subprocess.run(["git", "apply", "-"], cwd=directory, check=True, input=patch, text=True)
    (directory / "eval.sh").write_text(spec.eval_script)
    with (directory / "log").open("wb") as log:
        subprocess.run(["bash", "eval.sh"], cwd=directory, stdout=log, stderr=subprocess.STDOUT, check=False)
    return get_logs_eval(spec, str(directory / "log"))[0]


@pytest.mark.parametrize(("patch", "resolved"), [(FIX, True), ("", False)], ids=["gold", "empty"])
async def test_gold_is_1_and_empty_is_0_with_the_statuses_of_the_harness(task, tmp_path, patch, resolved):
    grade = await graded(task, patch)
    assert grade.resolved is resolved, grade.log
    found = {test_id: str(status) for test_id, status in grade.statuses.items()}
    assert found == harness(patch, tmp_path)
    assert found[P2P[1]] == "XFAIL", "as good as passed"


async def test_a_log_that_the_patch_forged_is_not_believed(task, tmp_path):
    grade = await graded(task, FORGE)
    assert (grade.resolved, harness(FORGE, tmp_path)) == (False, {})
    assert set(map(str, grade.statuses.values())) == {"MISSING"}


async def test_a_log_that_was_forged_and_ends_well_is_not_believed_where_reports_are_signed(task, tmp_path):
    forge = FORGE.replace("_exit(3)", "_exit(0)").replace("os; print", "atexit, os; atexit.register(lambda: (print")
    forge = forge.replace("os._exit(0)", "os._exit(0)))").replace("flush=True); os", "flush=True), os")
    assert harness(forge, tmp_path) == dict.fromkeys(F2P + P2P, "PASSED"), "swebench itself believes it"
    grade = await graded(task, forge)
    assert not grade.resolved
    assert [str(grade.statuses[test_id]) for test_id in F2P + P2P] == ["FAILED", "PASSED", "XFAIL"]


def test_a_log_that_breaks_the_parser_is_no_verdict_but_may_be_the_patchs_doing():
    command = "./node_modules/.bin/mocha tests/run.js --reporter json"
    log = f">>>>> Start Test Output\n{command}\n{{\n>>>>> End Test Output\n"
    with pytest.raises(GradingAborted, match="parse_log_prismjs of swebench cannot read the log: KeyError"):
        parser("swebench:parse_log_prismjs", Task("a", ""))(log, "")


def test_what_a_parser_prints_does_not_mix_with_ours(capsys):
    log = ">>>>> Start Test Output\n+ mvnd test -Dtest=a\n>>>>> End Test Output\n"
    assert parser("swebench:parse_log_maven", Task("a", ""))(log, "") == {}
    assert capsys.readouterr().out == ""


def test_a_script_without_marks_is_left_alone():
    row = Row(ROW | {"eval_script": "#!/bin/bash\nmake test\n"})
    assert [*SweBench().task(row).grading.tests.values()] == ["#!/bin/bash\nmake test\n"]
    spec = SimpleNamespace(lines=SweBench().task(Row(ROW)).grading.tests.popitem()[1].splitlines())
    assert spec.lines == make_test_spec(ROW).eval_script.splitlines()
