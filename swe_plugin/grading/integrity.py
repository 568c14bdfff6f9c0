"""What a patch may not decide: the files that judge it.

Changes to them are left out when the patch is applied, so a fresh environment keeps its own test files and test
configuration, and hidden tests are injected into what nobody has prepared for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from swe_plugin.grading.parsers import SWEBENCH
from swe_plugin.grading.paths import Change, FileChange, file_changes
from swe_plugin.types import GradingSpec, TestStatus

__all__ = [
    "TEST_CONFIGURATION",
    "TEST_FILES",
    "hidden_paths",
    "is_test",
    "left_out",
    "matches",
    "met",
    "tests_edited",
]

TEST_CONFIGURATION = ("conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "sitecustomize.py", "usercustomize.py")
"""File names, in any directory, that change how tests run: never taken from a patch."""

TEST_FILES = ("test_*.py", "*_test.py", "tests.py")
"""File names of tests. Changed or deleted ones are restored; new ones are welcome but not taken along."""


def hidden_paths(spec: GradingSpec) -> list[str]:
    """Paths that judge: whole files, those of the test patch, and further ones."""
    return [*spec.tests, *(item.path for item in file_changes(spec.test_patch)), *spec.protected]


def met(spec: GradingSpec, test_id: str, status: TestStatus) -> bool:
    """Whether a test has the status that it must have. To swebench an expected failure is as good as passed."""
    wanted = spec.expected.get(test_id, TestStatus.PASSED)
    as_passed = status is TestStatus.XFAIL and spec.parser.startswith(SWEBENCH)
    return status == wanted or (as_passed and wanted == TestStatus.PASSED)


def left_out(changes: Iterable[FileChange], hidden: Iterable[str]) -> list[FileChange]:
    """The changes that are not applied.

    Args:
        changes: of the patch.
        hidden: paths of the hidden test files.
    """
    hidden = [str(PurePosixPath(path)) for path in hidden]
    return [item for item in changes if is_test(item.path) or _collides(item, hidden)]


def tests_edited(changes: Iterable[FileChange], hidden: Iterable[str]) -> bool:
    """Whether a patch tries to change what judges it. New test files under names of their own are honest."""
    hidden = [str(PurePosixPath(path)) for path in hidden]
    return any(
        _collides(item, hidden)
        or matches(item.path, TEST_CONFIGURATION)
        or (matches(item.path, TEST_FILES) and item.change is not Change.ADDED)
        for item in changes
    )


def is_test(path: str) -> bool:
    """Whether a file, by its name, is a test or configures tests."""
    return matches(path, (*TEST_CONFIGURATION, *TEST_FILES))


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Whether the name of a file, in any directory, matches one of `patterns`."""
    name = PurePosixPath(path).name
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _collides(item: FileChange, hidden: Iterable[str]) -> bool:
    """The path is a hidden file, or a file or link where a hidden file needs a directory, or the reverse."""
    for path in hidden:
        if item.path == path or item.path.startswith(f"{path}/"):
            return True
        if path.startswith(f"{item.path}/") and item.change is not Change.DELETED:
            return True
    return False
