"""A small project with tests, and its suite on local environments."""

from __future__ import annotations

import sys
from pathlib import Path

from grading.local import LocalEnvironment

from swe_plugin.config import SweConfig
from swe_plugin.environments import EnvironmentPool, Slots, spec_for
from swe_plugin.synth.project import Project
from swe_plugin.synth.suite import Suite, suite_command
from swe_plugin.types import Image

CORE = '''\
def clamp(value, low, high):
    """Keep a value between two bounds."""
    if value < low:
        return low
    return min(value, high)


def spin(count):
    while count > 0:
        count -= 1
    return count


def unused(a):
    return not a
'''
TESTS = """\
import pytest

from calc.core import clamp, spin


class TestClamp:
    @pytest.mark.parametrize("value", [1, 2])
    def test_inside(self, value):
        assert clamp(value, 0, 3) == value

    def test_below(self):
        assert clamp(-1, 0, 3) == 0


def test_above():
    assert clamp(9, 0, 3) == 3


def test_spin():
    assert spin(4) == 0


def test_other():
    assert True


def test_third():
    assert True


def test_known_failure():
    assert False
"""
FILES = {"calc/__init__.py": "", "calc/core.py": CORE, "tests/test_core.py": TESTS, "README.md": "# calc\n"}
PASSING = (
    "tests/test_core.py::TestClamp::test_below",
    "tests/test_core.py::TestClamp::test_inside[1]",
    "tests/test_core.py::TestClamp::test_inside[2]",
    "tests/test_core.py::test_above",
    "tests/test_core.py::test_other",
    "tests/test_core.py::test_spin",
    "tests/test_core.py::test_third",
)


def project(files=FILES):
    return Project("calc", "1", files, ".", ())


def suite(files=FILES, factory=LocalEnvironment):
    """The suite of a project, run by the Python of these tests."""
    made = project(files)
    pool = EnvironmentPool(factory, Slots())
    command = (sys.executable, *suite_command(made, ())[1:])

    config = SweConfig().environment
    config.env["PATH"] = f"{Path(sys.executable).parent}:/usr/bin:/bin"

    def spec(image, label):
        return spec_for(image, config, label=label)

    return Suite(made, Image(files=files), command, pool, spec)
