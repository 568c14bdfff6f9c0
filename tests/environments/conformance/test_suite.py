"""The public suite itself: it is large, it finds faults, and it says what it leaves out."""

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

import pytest

from swe_plugin.environments.conformance import ConformanceSuite

from .mutants import MUTANTS, Bubblewrap, Sandbox

FILE = Path(__file__).parent / "mutants/suites.py"

pytestmark = pytest.mark.slow


def test_the_suite_has_more_than_sixty_checks():
    assert len([name for name in dir(ConformanceSuite) if name.startswith("test_")]) >= 60


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """(class, check) -> whether every case passed; cases count for their check and under their own name."""
    results = tmp_path_factory.mktemp("mutants") / "results.xml"
    tests = {f"{FILE}::Test{name}::test_{check}" for name, (_, checks) in MUTANTS.items() for check in checks}
    for mutant, checks in MUTANTS.values():
        base = Sandbox if issubclass(mutant, Sandbox) else Bubblewrap
        tests |= {f"{FILE}::Test{base.__name__}::test_{check}" for check in checks}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=60", f"--junitxml={results}"]
    variables = {**os.environ, "TMPDIR": str(results.parent)}  # some mutants leave things there
    done = subprocess.run([*command, *sorted(tests)], env=variables, capture_output=True, text=True, check=False)
    assert results.exists(), done.stdout[-3000:] + done.stderr[-3000:]
    passed = defaultdict(lambda: True)
    for case in ElementTree.parse(results).getroot().iter("testcase"):
        name, check = case.get("classname").rpartition(".Test")[2], case.get("name").removeprefix("test_")
        assert case.find("skipped") is case.find("error") is None, f"{name}: {check} did not run"
        for key in {check, check.partition("[")[0]}:
            passed[name, key] = passed[name, key] and case.find("failure") is None
    return dict(passed)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_backend_with_one_fault_does_not_pass(outcomes, name):
    for check in MUTANTS[name][1]:
        assert not outcomes[name, check], f"{check} does not find it"


@pytest.mark.parametrize("base", [Bubblewrap, Sandbox], ids=lambda base: base.__name__)
def test_the_same_checks_pass_without_the_fault(outcomes, base):
    failed = [check for (name, check), passed in outcomes.items() if name == base.__name__ and not passed]
    assert not failed


def test_what_is_skipped_is_said_with_the_reason(tmp_path):
    (tmp_path / "test_dummy.py").write_text(
        "from swe_plugin.environments.conformance import ConformanceSuite\n"
        "from swe_plugin.environments.dummy import DummyEnvironment\n"
        "class TestDummy(ConformanceSuite): backend = DummyEnvironment\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-rs",
        "-q",
        "-k",
        "fork_bomb or can_be_stopped",
    ]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "DummyEnvironment lacks processes: nothing runs" in run.stdout
    assert "TestDummy.kill does not say how to kill a DummyEnvironment" in run.stdout
