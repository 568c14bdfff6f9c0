"""Locks, make targets and the CI script agree with the package."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
OUTSIDE = {"pre-commit"}  # wants a newer `packaging` than vLLM allows; installed by whoever wants it


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / ".ci/locks" / name).read_text().split()
    assert all(re.fullmatch(r"[\w.\[\]-]+==[\w.]+", line) for line in lines), "exact pins only"
    return {canonicalize_name(line.partition("==")[0]): line.partition("==")[2] for line in lines}


@pytest.mark.parametrize("wanted", PROJECT["dependencies"] + EXTRAS["cpu"])
def test_the_cpu_lock_holds_what_the_package_asks_for(wanted):
    requirement = Requirement(wanted)
    assert requirement.specifier.contains(pins("cpu.txt")[canonicalize_name(requirement.name)], prereleases=True)


@pytest.mark.parametrize(
    "wanted",
    [line for line in EXTRAS["dev"] + EXTRAS["litellm"] + EXTRAS["swebench"] if Requirement(line).name not in OUTSIDE],
)
def test_the_dev_lock_holds_the_tools(wanted):
    requirement = Requirement(wanted)
    assert requirement.specifier.contains(pins("dev.txt")[canonicalize_name(requirement.name)], prereleases=True)


def test_the_two_locks_do_not_contradict():
    assert not pins("cpu.txt").keys() & pins("dev.txt").keys()


def test_every_make_target_in_the_docs_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    pages = "".join(page.read_text() for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
    named = set(re.findall(r"^make ([a-z-]+)|`make ([a-z-]+)", pages, re.MULTILINE))
    assert {first or second for first, second in named} <= targets


@pytest.mark.parametrize(
    ("case", "code"),
    [
        ('<testcase classname="a" name="b"/>', 0),
        ('<testcase classname="a" name="b"><skipped message="no reason"/></testcase>', 1),
        ("", 1),
    ],
    ids=["ran", "skipped", "nothing ran"],
)
def test_ci_fails_if_a_test_was_skipped_or_nothing_ran(tmp_path, case, code):
    results = tmp_path / "results.xml"
    results.write_text(f"<testsuites><testsuite>{case}</testsuite></testsuites>")
    done = subprocess.run([sys.executable, ROOT / ".ci/no_skips.py", results], capture_output=True, text=True)
    assert done.returncode == code, done.stdout
