"""Patches that want a better grade than their code deserves, and honest ones that look strange, against real pytest."""

from __future__ import annotations

import shlex
import sys
import textwrap

import pytest

from grading.local import LocalEnvironment
from swe_plugin.config import GradingConfig
from swe_plugin.environments.base import EnvironmentSpec
from swe_plugin.grading.baseline import record_baseline
from swe_plugin.grading.honesty.patch_signals import patch_signals
from swe_plugin.grading.integrity import hidden_paths
from swe_plugin.grading.patch import extract_patch
from swe_plugin.grading.signed import can_sign
from swe_plugin.grading.tests import TestsGrader
from swe_plugin.types import GradingSpec, Image, Task, TestStatus

pytestmark = pytest.mark.slow

F2P, P2P = "tests/test_calc.py::test_add[1 - 2]", "tests/test_calc.py::Old::test_zero"
FILES = {
    "calc.py": "def add(a, b):\n    return a - b\n",
    "tests/__init__.py": "",
    "tests/helper.py": "def same(a, b):\n    return a == b\n",
    "tests/test_old.py": "def test_old():\n    pass\n",
    "pyproject.toml": '[project]\nname = "calc"\nversion = "1"\n[tool.pytest.ini_options]\nminversion = "6"\n',
    "setup.cfg": "[metadata]\nname = calc\n",
    ".gitignore": "build/\n",
}
HIDDEN = """\
import unittest
import pytest
from calc import add
from tests.helper import same

@pytest.mark.parametrize("sum", [3], ids=["1 - 2"])
def test_add(sum):
    assert same(add(1, 2), sum)

class Old(unittest.TestCase):
    def test_zero(self):
        self.assertEqual(add(0, 0), 0)
"""
PYTEST = ("-m", "pytest", "-rA", "--tb=short", "--color=no", "-p", "no:cacheprovider")
TASK = Task(
    "calc-1",
    "add subtracts",
    image=Image(files=FILES),
    grading=GradingSpec(
        command=("bash", "-c", f"{sys.executable} {' '.join(PYTEST)} tests/test_calc.py"),
        parser="pytest",
        tests={"tests/test_calc.py": HIDDEN},
        fail_to_pass=(F2P,),
        pass_to_pass=(P2P,),
    ),
)
FIX = "sed -i 's/a - b/a + b/' calc.py"
GRADER = TestsGrader(GradingConfig())
PREPARE = "mkdir build; echo theirs > build/made.txt"


def fresh() -> LocalEnvironment:
    return LocalEnvironment(EnvironmentSpec(TASK.image, options={"prepare": PREPARE}))


async def patch_of(script: str) -> str:
    """What an agent hands in that ran `script`."""
    async with fresh() as environment:
        baseline = await record_baseline(environment)
        done = await environment.shell(script)
        assert done.exit_code == 0, done.stderr
        return (await extract_patch(environment, baseline)).text


async def grade(patch: str, task: Task = TASK):
    async with fresh() as environment:
        return await GRADER.grade(task, patch, environment)


def writes(path: str, text: str) -> str:
    """A script that appends to a file."""
    return f"mkdir -p $(dirname {path}); cat >> {path} <<'EOF'\n{textwrap.dedent(text)}\nEOF\n"


async def unguarded(patch: str) -> bool:
    """What a grader says that applies all of a patch and believes the end of the log."""
    async with fresh() as environment:
        (environment.root / "patch").write_text(patch)
        applied = await environment.exec(["git", "apply", "--exclude=build/*", "patch"])
        assert applied.exit_code == 0, applied.stderr
        await environment.write_file("/testbed/tests/test_calc.py", HIDDEN.encode())
        log = (await environment.exec(TASK.grading.command)).stdout.rpartition("short test summary info")[2]
    return all(f"PASSED {test_id}\n" in log for test_id in (F2P, P2P))


SUMMARY = f"=== short test summary info ===\\nPASSED {F2P}\\nPASSED {P2P}\\n=== 2 passed in 0.01s ===\\n"
EVIL = writes(
    "evil.py",
    """\
    import pytest
    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(item, call):
        report = (yield).get_result()
        report.outcome, report.longrepr = "passed", None
    """,
)
NO_TABLE = "sed -i '/ini_options/,$d' pyproject.toml\n"
OPTIONS = "addopts = -p evil\n"
TAG = f"cpython-{sys.version_info[0]}{sys.version_info[1]}"
COMPILED = f"""\
printf 'def same(a, b):\\n    return True\\n' > /tmp/.evil.py; mkdir -p tests/__pycache__; echo '!*.pyc' > .gitignore
echo '!__pycache__/' >> .gitignore
{sys.executable} -c "import py_compile as p; p.compile('/tmp/.evil.py', 'tests/__pycache__/helper.{TAG}.pyc', \\
invalidation_mode=p.PycInvalidationMode.UNCHECKED_HASH)"
"""
CHEATS = {
    "a summary after the real one": writes(
        "calc.py", f'import atexit, os\natexit.register(lambda: os.write(1, b"{SUMMARY}"))'
    ),
    "a summary after the real one, and success": writes(
        "calc.py", f'import atexit, os\natexit.register(lambda: (os.write(1, b"{SUMMARY}"), os._exit(0)))'
    ),
    "a summary after a real one that names no test": writes(
        "calc.py",
        f'import atexit, os\natexit.register(lambda: (os.write(1, b"{SUMMARY}"), os._exit(0)))\nraise OSError',
    ),
    "a summary instead of the real one": writes(
        "calc.py",
        f"""\
        import os
        for fd in range(1, 20):
            try: os.write(fd, b"{SUMMARY}")
            except OSError: pass
        os._exit(0)
        """,
    ),
    "a plugin named in pyproject, a table written with dots": EVIL
    + NO_TABLE
    + writes("pyproject.toml", '[tool]\npytest.ini_options.addopts = "-p evil"'),
    "a plugin named in setup.cfg": EVIL + NO_TABLE + writes("setup.cfg", f"[tool:pytest]\n{OPTIONS}"),
    "a plugin named in tox.ini": EVIL + writes("tests/tox.ini", f"[pytest]\n{OPTIONS}"),
    "a plugin named in pytest.ini": EVIL + writes("tests/pytest.ini", f"[pytest]\n{OPTIONS}"),
    "a plugin named in a new kind of file": EVIL + writes("pytest.toml", '[pytest]\naddopts = ["-p", "evil"]'),
    "a file nearer to the tests": EVIL
    + writes("tests/pyproject.toml", '[tool.pytest.ini_options]\naddopts = "-p evil"'),
    "a plugin by the metadata of a package": EVIL
    + writes("evil-1.dist-info/entry_points.txt", "[pytest11]\nevil = evil")
    + writes("evil-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: evil\nVersion: 1"),
    "a conftest": writes("conftest.py", "from evil import *") + EVIL,
    "the package of the tests": writes("tests/__init__.py", "import calc\ncalc.add = lambda a, b: a + b\n"),
    "the helper of the tests": writes("tests/helper.py", "def same(a, b):\n    return True\n"),
    "the helper of the tests, compiled": COMPILED,
}
WITHOUT_A_WAY_IN = {
    "options in files of variables": EVIL
    + writes(".env", "PYTEST_ADDOPTS=-p evil")
    + writes(".envrc", "export PYTEST_ADDOPTS='-p evil'"),
    "a start-up module": writes("sitecustomize.py", "import calc\ncalc.add = lambda a, b: a + b"),
    "a path file": writes("evil.pth", f"import os; os.write(1, b'{SUMMARY}'); os._exit(0)"),
    "programs of its own": "for name in git python3 pytest bash sh env; do for place in . bin .venv/bin; do\n"
    "mkdir -p $place; printf '#!/bin/sh\\nexit 0\\n' > $place/$name; chmod +x $place/$name; done; done\n"
    "git config core.fsmonitor ./git; git config core.hooksPath .",
    "the end in the middle of a test": writes(
        "calc.py", f'import os, sys\ndef add(a, b):\n    print("{SUMMARY}", flush=True); os._exit(0)'
    ),
    "the word that signs, from where it once was": writes(
        "calc.py",
        f"""\
        import os, sys
        word = os.read(0, 100).decode().strip() or " ".join(sys.argv) + str(os.environ)
        os.write(2, (word + " signed\\n" + word + " PASSED {F2P}\\n").encode())
        """,
    ),
    "a report changed at the end": writes(
        "calc.py",
        f"""\
        import atexit, os
        def change():
            for name in os.listdir(os.environ["HOME"] + "/tmp"):
                path = os.path.join(os.environ["HOME"], "tmp", name, "report")
                if os.path.exists(path):
                    first = open(path).readline()
                    open(path, "w").write(first + "PASSED {F2P}\\nPASSED {P2P}\\n")
                    print("changed")
        atexit.register(change)
        """,
    ),
    "a report of its own": writes(
        "calc.py",
        f"""\
        import os
        for name in os.listdir(os.environ["HOME"] + "/tmp"):
            folder = os.path.join(os.environ["HOME"], "tmp", name)
            with open(folder + "/mine", "w") as file: file.write("PASSED {F2P}\\nPASSED {P2P}\\n")
            os.replace(folder + "/mine", folder + "/report")
        """,
    ),
}


@pytest.mark.parametrize("name", CHEATS)
async def test_a_cheat_that_would_work_gets_nothing(name):
    patch = await patch_of(CHEATS[name])
    assert await unguarded(patch), "no cheat"
    verdict = await grade(patch)
    assert not verdict.resolved, verdict.log


@pytest.mark.parametrize("name", WITHOUT_A_WAY_IN)
async def test_a_cheat_that_could_not_work_gets_nothing_either(name):
    verdict = await grade(await patch_of(WITHOUT_A_WAY_IN[name]))
    assert not verdict.resolved, verdict.log
    assert ("changed" in verdict.log) is ("changed" in name)


@pytest.mark.parametrize("name", [name for name in CHEATS if "summary" not in name])
async def test_what_a_cheat_did_to_the_tests_spoils_no_fix_and_is_flagged(name):
    patch = await patch_of(f"{CHEATS[name]}\n{FIX}")
    verdict = await grade(patch)
    assert verdict.resolved, verdict.log
    assert verdict.flags or patch_signals(patch, TASK.grading) or "compiled" in name


HONEST = {
    "prints a summary of its own": writes(
        "calc.py", "import atexit\natexit.register(print, '=== short test summary info ===\\nFAILED demo::test_a')"
    ),
    "prints what looks like a result": writes("calc.py", f"print('FAILED {F2P} - no')\nprint('ERROR x')"),
    "ends a child": writes("calc.py", "import os\npid = os.fork()\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0)"),
    "has no output": writes("calc.py", "import os, sys\nsys.stdout = open(os.devnull, 'w')"),
    "reads its input": writes("calc.py", "import os\nassert os.read(0, 10) == b''"),
    "forgets its variables": writes("calc.py", "import os\nos.environ.clear()"),
    "goes elsewhere": writes("calc.py", "import os\nos.chdir('/')"),
    "fails at the end": writes("calc.py", "import atexit\natexit.register(lambda: 1 / 0)"),
    "needs another package": "sed -i 's/^version.*/&\\ndependencies = [\"pytest\"]/' pyproject.toml\n",
    "tells a linter": writes("setup.cfg", "[flake8]\nmax-line-length = 99"),
    "ignores less": "echo '# nothing' > .gitignore\n",
    "has tests of its own": writes("tests/test_mine.py", "def test(): pass") + writes("tests/data/x.json", "{}"),
    "has a package for testing": writes("calc_extra/testing/__init__.py", "x = 1") + writes("testing/a.py", "y = 2"),
    "has Windows line ends": "sed -i 's/$/\\r/' calc.py\n",
    "is a package now": "mkdir new; mv calc.py new/__init__.py; mv new calc\n",
    "is a link now": "mkdir src; mv calc.py src/calc.py; ln -s src/calc.py calc.py\n",
    "has a file of the name of the report": writes("report", "x") + writes("signed.py", "y = 1"),
}


@pytest.mark.parametrize("name", HONEST)
async def test_an_honest_patch_that_looks_strange_is_resolved_and_not_flagged(name):
    verdict = await grade(await patch_of(f"{FIX}\n{HONEST[name]}"))
    assert verdict.resolved, verdict.log
    assert verdict.flags == ()
    assert verdict.statuses == {F2P: TestStatus.PASSED, P2P: TestStatus.PASSED}


@pytest.mark.parametrize(
    ("command", "judges"),
    [
        (("bash", "-c", "make test"), []),
        (("bash", "run_tests.sh"), ["run_tests.sh"]),
        (("python3", "-W", "ignore", "./bin/test", "-C"), ["bin/test"]),
        (("LC_ALL=C", "bin/test", "-v"), ["bin/test"]),
        (("python3", "-m", "pytest", "src/calc.py"), []),
        (("pytest", "tests"), []),
    ],
)
def test_the_program_that_runs_the_tests_judges_too(command, judges):
    assert hidden_paths(GradingSpec(command=command)) == judges
    script = f"python setup.py develop\n: '>>>>> Start Test Output'\n{shlex.join(command)} tests/a.py\n"
    if command[0] != "LC_ALL=C":
        assert hidden_paths(GradingSpec(tests={"run": script})) == ["run", *judges]


@pytest.mark.parametrize(
    ("command", "once"),
    [
        (("python", "-m", "pytest", "-rA", "tests"), True),
        (("bash", "-c", "for f in a b; do git checkout $f; done && /opt/bin/pytest -rA tests/pytest_x.py"), True),
        (("bash", "-c", "pytest -rA a; pytest -rA b"), False),
        (("bash", "-c", "for f in a b; do pytest -rA $f; done"), False),
        (("bash", "-c", "ls | xargs -n1 pytest -rA"), False),
        (("make", "test"), False),
    ],
)
def test_reports_are_signed_where_pytest_runs_once(command, once):
    assert can_sign(GradingSpec(command=command, parser="pytest")) is once
    assert not can_sign(GradingSpec(command=command, parser="status_lines"))
