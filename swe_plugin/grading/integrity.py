"""What a patch may not decide: the files that judge it.

Changes to them are left out when the patch is applied, so a fresh environment keeps its own test files and test
configuration, and hidden tests are injected into what nobody has prepared for them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
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

TEST_CONFIGURATION = (
    *("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini"),
    *("sitecustomize.py", "usercustomize.py", "entry_points.txt"),
)
"""File names, in any directory, that change how tests run (entry points load plugins): never taken from a patch."""

TEST_FILES = ("test_*.py", "*_test.py", "tests.py")
"""File names of tests. Changed or deleted ones are restored; new ones are welcome but not taken along."""

TEST_DIRECTORIES = ("tests", "test", "testing")
"""Directories of hidden tests have their helpers and packages in them: nothing in them is taken from a patch."""

_COMPILED = ("*.pyc", "*.pyo")
_START = ">>>>> Start Test Output"
_INTERPRETER = re.compile(r"(?:.*/)?(?:ba|da)?sh|(?:.*/)?python[\d.]*")


def hidden_paths(spec: GradingSpec) -> list[str]:
    """Paths that judge: whole files, those of the test patch, further ones, and the program that runs the tests."""
    patched = (item.path for item in file_changes(spec.test_patch))
    return [*spec.tests, *patched, *spec.protected, *_runners(spec)]


def _runners(spec: GradingSpec) -> list[str]:
    """Programs in the work directory that the command, or a script after its mark, calls: ``bin/test``."""
    lines = [list(spec.command)]
    for script in spec.tests.values():
        for line in script.partition(_START)[2].splitlines():
            try:
                lines.append(shlex.split(line))
            except ValueError:
                continue  # no simple command
    return [name for words in lines if (name := _runner(words))]


def _runner(words: Sequence[str]) -> str:
    words = [word for word in words if not re.match(r"\w+=", word)]
    while words and _INTERPRETER.fullmatch(words[0]):
        rest = words[1:]
        while rest and rest[0].startswith("-") and rest[0] not in ("-c", "-m"):
            rest = rest[2 if rest[0] in ("-W", "-X", "-O", "-o") else 1 :]
        words = [] if rest[:1] in (["-c"], ["-m"]) else rest
    name = words[0] if words else ""
    relative = not name.startswith("/") and ("/" in name or name.endswith((".py", ".sh")))
    return str(PurePosixPath(name)) if relative else ""


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
    homes = _homes(hidden)

    def judges(path: str, change: Change) -> bool:
        compiled = matches(path, _COMPILED)  # Python may prefer them to their source
        return is_test(path) or compiled or _collides(FileChange(path, change), hidden) or _inside(path, homes)

    return [
        item
        for item in changes
        if judges(item.path, item.change) or (item.source and judges(item.source, Change.DELETED))
    ]


def tests_edited(changes: Iterable[FileChange], hidden: Iterable[str]) -> bool:
    """Whether a patch tries to change what judges it. New test files under names of their own are honest."""
    hidden = [str(PurePosixPath(path)) for path in hidden]
    homes = _homes(hidden)
    return any(
        _collides(item, hidden)
        or matches(item.path, TEST_CONFIGURATION)
        or (item.change is not Change.ADDED and (matches(item.path, TEST_FILES) or _inside(item.path, homes)))
        for item in changes
    )


def is_test(path: str) -> bool:
    """Whether a file, by its name, is a test or configures tests."""
    return matches(path, (*TEST_CONFIGURATION, *TEST_FILES))


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Whether the name of a file, in any directory, matches one of `patterns`."""
    name = PurePosixPath(path).name
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _homes(hidden: Iterable[str]) -> set[str]:
    """The outermost ``tests`` above each hidden file, else its innermost ``test`` or ``testing``: those may hold
    packages that are no tests."""
    homes: set[str] = set()
    for path in hidden:
        parents = PurePosixPath(path).parents
        named = [parent for parent in parents if parent.name in TEST_DIRECTORIES]  # innermost first
        outermost = [parent for parent in named if parent.name == TEST_DIRECTORIES[0]][-1:]
        homes.update(map(str, outermost or named[:1]))
    return homes


def _inside(path: str, directories: Iterable[str]) -> bool:
    return any(path.startswith(f"{directory}/") for directory in directories)


def _collides(item: FileChange, hidden: Iterable[str]) -> bool:
    """The path is a hidden file, or a file or link where a hidden file needs a directory, or the reverse."""
    for path in hidden:
        if item.path == path or item.path.startswith(f"{path}/"):
            return True
        if path.startswith(f"{item.path}/") and item.change is not Change.DELETED:
            return True
    return False
