"""`Project`: the text files of a repository, and what has to be known to run its tests."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from swe_plugin.errors import ConfigError

__all__ = ["Project", "project_from_files"]

_TEST_GROUPS = ("test", "tests", "testing")
_NO_SOURCE = ("test", "tests", "testing", "doc", "docs", "example", "examples", "benchmark", "benchmarks", "scripts")
_TEST_FILE = re.compile(r"(test_[^/]*|[^/]*_test|tests)\.py")
_METADATA_READERS = ("importlib.metadata", "importlib_metadata", "pkg_resources")
_DEFAULT_VERSION = "0"


@dataclass(frozen=True)
class Project:
    """One repository at one state.

    Attributes:
        name: of the distribution, normalised.
        version: ``0`` where nothing says it.
        files: path -> text; files that are no UTF-8 text are not among them.
        root: directory that its modules are imported from, relative: ``.`` or ``src``.
        requirements: what it and its tests need, as requirement lines; the project itself is never among them.
        left_out: files that are no text.
    """

    name: str
    version: str
    files: Mapping[str, str]
    root: str
    requirements: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    @cached_property
    def test_files(self) -> tuple[str, ...]:
        """Files that hold tests by their name."""
        return tuple(sorted(path for path in self.files if _TEST_FILE.fullmatch(PurePosixPath(path).name)))

    @cached_property
    def test_paths(self) -> tuple[str, ...]:
        """Top directories (or files at the top) that hold all of them."""
        return tuple(sorted({_top_of_tests(path) for path in self.test_files}))

    @cached_property
    def source_files(self) -> tuple[str, ...]:
        """Modules of the project itself."""
        prefix = "" if self.root == "." else f"{self.root}/"
        return tuple(sorted(path for path in self.files if path.startswith(prefix) and _is_source(path)))

    @cached_property
    def digest(self) -> str:
        """Of its files and what they are run with."""
        text = json.dumps([sorted(self.files.items()), self.root])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def lines(self) -> int:
        """Lines of its modules."""
        return sum(self.files[path].count("\n") for path in self.source_files)


def project_from_files(data: Mapping[str, bytes], name: str, origin: str) -> Project:
    """Make sense of a repository's files.

    Args:
        data: path -> content.
        name: of the project, where its files do not say.
        origin: where they come from, for errors.

    Raises:
        ConfigError: there are no tests, or no modules.
    """
    files, left_out = {}, []
    for path, content in data.items():
        try:
            files[path] = content.decode()
        except UnicodeDecodeError:
            left_out.append(path)
    metadata = HeaderParser().parsestr(files.get("PKG-INFO", ""))
    table = _toml(files)
    name = canonicalize_name(metadata["Name"] or table.get("project", {}).get("name") or name)
    version = str(metadata["Version"] or table.get("project", {}).get("version") or _DEFAULT_VERSION)
    root = "src" if any(path.startswith("src/") and path.endswith(".py") for path in files) else "."
    needed = [*_from_metadata(metadata.get_all("Requires-Dist", ())), *_from_table(table)]
    requirements = tuple(dict.fromkeys(str(item) for item in needed if canonicalize_name(item.name) != name))
    files |= _egg_info(files, name, version, root)
    project = Project(name, version, files, root, requirements, tuple(sorted(left_out)))
    if not project.test_files:
        raise ConfigError("source", origin, "carries no tests (no test_*.py, *_test.py): take a repository that does")
    if not project.source_files:
        raise ConfigError("source", origin, "has no Python modules beside its tests")
    return project


def _is_source(path: str) -> bool:
    parts = PurePosixPath(path).parts
    inside = not any(part.lower() in _NO_SOURCE or part.startswith(".") for part in parts[:-1])
    named = parts[-1] not in ("setup.py", "conftest.py", "noxfile.py", "conf.py", "tasks.py")
    return path.endswith(".py") and inside and named and not _TEST_FILE.fullmatch(parts[-1])


def _top_of_tests(path: str) -> str:
    parts = PurePosixPath(path).parts
    for number, part in enumerate(parts[:-1], start=1):
        if part.lower() in _NO_SOURCE:
            return "/".join(parts[:number])
    return path


def _toml(files: Mapping[str, str]) -> dict[str, Any]:
    try:
        return tomllib.loads(files.get("pyproject.toml", ""))
    except tomllib.TOMLDecodeError:
        return {}


def _from_metadata(lines: Iterable[str]) -> list[Requirement]:
    """What a built distribution says, its extras for tests included."""
    return [item for line in lines if (item := _requirement(line)) and _applies(item)]


def _from_table(table: Mapping[str, Any]) -> list[Requirement]:
    """What pyproject.toml says: where there is no metadata, and groups of development."""
    project = table.get("project", {})
    extras, groups = project.get("optional-dependencies", {}), table.get("dependency-groups", {})
    lines = [*project.get("dependencies", ())]
    for group in _TEST_GROUPS:
        lines += [*extras.get(group, ()), *groups.get(group, ())]
    found = [_requirement(line) for line in lines if isinstance(line, str)]
    return [item for item in found if item and _applies(item)]


def _requirement(line: str) -> Requirement | None:
    try:
        return Requirement(line)
    except InvalidRequirement:
        return None


def _applies(item: Requirement) -> bool:
    """Whether it is for this Python, always or for tests; the marker is then of no more use."""
    wanted = item.marker is None or any(item.marker.evaluate({"extra": extra}) for extra in ("", *_TEST_GROUPS))
    item.marker = None
    return wanted


def _egg_info(files: Mapping[str, str], name: str, version: str, root: str) -> dict[str, str]:
    """Metadata beside the modules, as a development install leaves it, for projects that ask for their version."""
    folder = "" if root == "." else f"{root}/"
    if any(path.startswith(folder) and ".egg-info/" in path for path in files):
        return {}
    if not any(word in text for path, text in files.items() if path.endswith(".py") for word in _METADATA_READERS):
        return {}
    written = files.get("PKG-INFO") or f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    return {f"{folder}{name.replace('-', '_')}.egg-info/PKG-INFO": written}
