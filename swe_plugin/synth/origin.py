"""Where projects come from: a directory, a source distribution, or one that pip downloads."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from packaging.requirements import InvalidRequirement, Requirement

from swe_plugin.errors import ConfigError
from swe_plugin.synth.project import Project, project_from_files

__all__ = ["read_project"]

_ARCHIVES = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip")
_SKIPPED = ("__pycache__", "node_modules", "build", "dist", "venv", "site-packages")
_MOST_BYTES, _MOST_FILE_BYTES = 16 << 20, 1 << 20
_NAME = re.compile(r"(.+?)-\d[^-]*$")


def read_project(source: str) -> Project:
    """The project at `source`. Blocking.

    Args:
        source: a directory (of a git repository its tracked files, as they are there), an archive, or a requirement
            ``name==version`` whose source distribution pip downloads. pip runs its build backend on this machine to
            learn its metadata; an archive is only read.

    Raises:
        ConfigError: there is no such thing, or no tests in it.
    """
    path = Path(source)
    if path.is_dir():
        return project_from_files(_of_directory(path), path.resolve().name, source)
    if path.is_file():
        return _of_archive(path)
    try:
        wanted = Requirement(source)
    except InvalidRequirement as error:
        raise ConfigError("source", source, f"is no directory, no archive and no requirement: {error}") from error
    with tempfile.TemporaryDirectory(prefix="swe-sdist-") as folder:
        return _of_archive(_downloaded(wanted, Path(folder)))


def _of_directory(top: Path) -> dict[str, bytes]:
    if (top / ".git").exists():
        run = subprocess.run(["git", "-C", top, "ls-files", "-z"], capture_output=True, check=False)
        if run.returncode:
            raise ConfigError("source", str(top), f"git ls-files: {run.stderr.decode().strip()}")
        names = [name.decode() for name in run.stdout.split(b"\0") if name]
    else:
        names = [path.relative_to(top).as_posix() for path in top.rglob("*")]
    paths = {name: top / name for name in names if _wanted(name)}
    return _bounded({name: path.read_bytes() for name, path in paths.items() if _plain(path)}, str(top))


def _plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and path.stat().st_size <= _MOST_FILE_BYTES


def _of_archive(path: Path) -> Project:
    if not path.name.endswith(_ARCHIVES):
        raise ConfigError("source", str(path), f"is no directory and no archive ({', '.join(_ARCHIVES)})")
    try:
        found = _of_zip(path) if path.name.endswith(".zip") else _of_tar(path)
    except (tarfile.TarError, zipfile.BadZipFile, OSError, EOFError) as error:
        raise ConfigError("source", str(path), f"cannot be read: {error}") from error
    stem = next(path.name.removesuffix(suffix) for suffix in _ARCHIVES if path.name.endswith(suffix))
    match = _NAME.match(stem)
    return project_from_files(_bounded(_without_top(found), str(path)), match[1] if match else stem, str(path))


def _of_tar(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        members = [item for item in archive if item.isfile() and item.size <= _MOST_FILE_BYTES and _wanted(item.name)]
        return {item.name: file.read() for item in members if (file := archive.extractfile(item)) is not None}


def _of_zip(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        members = [item for item in archive.infolist() if not item.is_dir() and item.file_size <= _MOST_FILE_BYTES]
        return {item.filename: archive.read(item) for item in members if _wanted(item.filename)}


def _without_top(found: dict[str, bytes]) -> dict[str, bytes]:
    """Archives of one directory are about what is in it."""
    tops = {PurePosixPath(name).parts[0] for name in found}
    if len(tops) != 1 or any("/" not in name for name in found):
        return found
    return {name.partition("/")[2]: content for name, content in found.items()}


def _wanted(name: str) -> bool:
    path = PurePosixPath(name)
    hidden = any(part in _SKIPPED or (part.startswith(".") and part not in (".", "..")) for part in path.parts[:-1])
    return not (path.is_absolute() or ".." in path.parts or hidden or path.parts[:1] == (".git",))


def _bounded(found: dict[str, bytes], origin: str) -> dict[str, bytes]:
    total = sum(map(len, found.values()))
    if total > _MOST_BYTES:
        fix = f"is {total >> 20} MiB of text: each task carries its repository, so at most {_MOST_BYTES >> 20}"
        raise ConfigError("source", origin, fix)
    return found


def _downloaded(wanted: Requirement, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    run = subprocess.run(
        [*command, "--dest", folder, str(wanted)], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    found = sorted(path for path in folder.iterdir() if path.name.endswith(_ARCHIVES))
    if run.returncode or not found:
        last = (run.stderr.strip().splitlines() or ["nothing was downloaded"])[-1]
        raise ConfigError("source", str(wanted), f"no file of that name here, and pip download says: {last}")
    return found[0]
