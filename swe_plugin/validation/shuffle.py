"""The same task with its tests in a random order."""

from __future__ import annotations

import dataclasses

from swe_plugin.types import Grade, Task

__all__ = ["is_pytest", "shuffled", "was_shuffled"]

_FOLDER, _MODULE = ".swe_order", "swe_order"
_MARK = "swe-plugin: tests ran in random order"
_PLUGIN = f"""\
import os, random, sys

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    rng, ranks = random.Random(os.environ["SWE_ORDER_SEED"]), {{}}

    def rank(item):
        module, group = item.nodeid.split("::", 1)[0], item.nodeid.split("[", 1)[0].rsplit("::", 1)[0]
        return [ranks.setdefault(name, rng.random()) for name in (module, group, item.nodeid)]

    items.sort(key=rank)


def pytest_unconfigure(config):
    sys.stderr.write("\\n{_MARK}\\n")
"""
"""Modules in a random order, groups (classes) within them, tests within those: fixtures of a module are made once."""

_SCRIPT = 'PYTHONPATH="$PWD/$0${PYTHONPATH:+:$PYTHONPATH}" exec "$@"'


def is_pytest(task: Task) -> bool:
    """Whether the task's tests look as if pytest runs them."""
    return "pytest" in task.grading.parser or any("pytest" in word for word in task.grading.command)


def shuffled(task: Task, seed: int) -> Task:
    """The task, graded by the same command with a plugin of pytest that changes the order of the tests."""
    grading = task.grading
    options = ("env", f"PYTEST_ADDOPTS=-p {_MODULE}", f"SWE_ORDER_SEED={seed}")
    command = (*options, "sh", "-c", _SCRIPT, _FOLDER, *grading.command)
    tests = {**grading.tests, f"{_FOLDER}/{_MODULE}.py": _PLUGIN}
    return dataclasses.replace(task, grading=dataclasses.replace(grading, command=command, tests=tests))


def was_shuffled(grade: Grade) -> bool:
    """Whether the plugin was there: a command may hide it from pytest, or not be pytest's."""
    return _MARK in grade.log
