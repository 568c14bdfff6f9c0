"""The ``host`` image: a minimal root directory made from this machine's own tools.

It holds bash, coreutils, git and the running Python with its standard library, with the shared libraries they
need, and nothing else of the machine: no users, no secrets, no site-packages, no home directories.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from swe_plugin.environments.images.elf import needed_libraries
from swe_plugin.errors import EnvironmentStartError

__all__ = ["build_host_image", "check_host_tools", "host_image_key"]

_RECIPE = "host-2"
"""Part of the key: raise it when this module builds something else from the same machine."""

_REQUIRED = ("bash", "sh", "cat", "env", "git", "grep", "ls", "mkdir", "mv", "rm", "sed", "sleep")
_OPTIONAL = """
[ arch awk b2sum base32 base64 basename bunzip2 bzcat bzip2 chmod chown cksum clear cmp comm cp csplit cut date
dd df diff diff3 dir dirname du echo ed egrep expand expr factor false fgrep file find fmt fold free gunzip gzip
head hexdump hostname id install jq join kill less link ln logname make mkfifo mktemp more nl nohup nproc numfmt
od paste patch pathchk pgrep pkill pr printenv printf ps ptx pwd readlink realpath rev rg sdiff seq sha1sum
setsid sha224sum sha256sum sha384sum sha512sum shred shuf sort split stat stdbuf stty strings sum sync tac tail tar tee
test time timeout touch tr tree true truncate tsort tty uname unexpand uniq unlink uptime users vdir watch wc
which who whoami xargs xxd xz xzcat yes zcat zdiff zgrep gawk mawk
""".split()  # noqa: SIM905 - as a list it would be 130 lines
_SEARCH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_GIT_HELPERS = ("git-sh-setup", "git-sh-i18n", "git-sh-i18n--envsubst", "git-submodule", "git-mergetool--lib")
_GIT_LINKS = ("git", "git-upload-pack", "git-receive-pack", "git-upload-archive")
_LIBRARY_EXTRAS = ("libnss_files.so.2", "libgcc_s.so.1")
"""Opened at run time, so that no binary lists them: name lookups before glibc 2.34, thread cancellation."""
_OF_WHEELS = ("libstdc++.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1", "libm.so.6")
"""What every wheel for manylinux may take for granted (PEP 599), as far as this machine has it."""
_STDLIB_DROP = ("site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip")
_MERGED = {"bin": "usr/bin", "sbin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64"}

_ETC = {
    "passwd": "root:x:0:0:root:/:/usr/sbin/nologin\nagent:x:1000:1000:agent:/home/agent:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    "group": "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "gitconfig": "[safe]\n\tdirectory = *\n[user]\n\tname = agent\n\temail = agent@sandbox\n"
    "[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n"
    "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n",
}


def host_image_key() -> str:
    """Digest of the tools, the interpreter and the C library this machine would put into the image."""
    parts = [_RECIPE]
    tools = _tools()
    with Path("/proc/self/maps").open() as maps:
        mapped = {line.split(None, 5)[5].strip() for line in maps if line.count("/")}
    libc = sorted(path for path in mapped if Path(path).name.startswith(("libc.", "libc-", "ld-")))
    for path in [*tools.values(), _interpreter(), _stdlib() / "os.py", *map(Path, libc)]:
        info = path.stat()
        parts.append(f"{path} {info.st_size} {info.st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def build_host_image(root: Path) -> None:
    """Fill the empty directory `root`.

    Raises:
        EnvironmentStartError: a tool that agents cannot do without is missing here.
    """
    _directories(root)
    copied: dict[Path, Path] = {}
    for name, source in _tools().items():
        _copy(source, root / "usr/bin" / name, copied)
    _git(root, copied)
    binaries = [*_python(root), *copied]
    _libraries(root, binaries)


@cache
def check_host_tools() -> None:
    """Whether this machine has what the image is made of; asked once per process.

    Raises:
        EnvironmentStartError: a tool that agents cannot do without is missing here.
    """
    _tools()


def _directories(root: Path) -> None:
    for name in (
        "usr/bin",
        "usr/lib",
        "usr/lib64",
        "usr/local/bin",
        "usr/local/lib",
        "etc",
        "dev",
        "proc",
        "sys",
        "run",
    ):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "var/tmp"):
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name).chmod(0o1777)
    (root / "home/agent").mkdir(parents=True)
    if os.geteuid() == 0:
        os.chown(root / "home/agent", 1000, 1000)
    for link, target in _MERGED.items():
        (root / link).symlink_to(target)
    (root / "usr/sbin").symlink_to("bin")
    for name, text in _ETC.items():
        (root / "etc" / name).write_text(text)


def _tools() -> dict[str, Path]:
    """Tool name -> real path on this machine."""
    found: dict[str, Path] = {}
    for name in (*_REQUIRED, *_OPTIONAL):
        path = shutil.which(name, path=_SEARCH)
        if path and _usable(real := Path(path).resolve()):
            found[name] = real
    if missing := [name for name in _REQUIRED if name not in found]:
        raise EnvironmentStartError(
            f"image 'host': this machine lacks {', '.join(missing)} in {_SEARCH}; install them or use another image"
        )
    return found


def _usable(path: Path) -> bool:
    """A readable ELF binary, or a script of the shells that the image has."""
    try:
        with path.open("rb") as file:
            head = file.readline(128)
    except OSError:
        return False
    return head.startswith(b"\x7fELF") or (head.startswith(b"#!") and head[2:].strip().endswith((b"/sh", b"/bash")))


def _inside(root: Path, path: Path) -> Path:
    """Where an absolute path of this machine lies in the image, whose /bin, /lib... are links into /usr."""
    first, *rest = path.parts[1:]
    return root.joinpath(_MERGED.get(first, first), *rest)


def _copy(source: Path, target: Path, copied: dict[Path, Path]) -> None:
    """Copy a file once; further names of it become symlinks (multi-call binaries look at their name)."""
    if source in copied:
        target.symlink_to(os.path.relpath(copied[source], target.parent))
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755)
    copied[source] = target


def _git(root: Path, copied: dict[Path, Path]) -> None:
    out = subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True, env={"PATH": _SEARCH})
    source = Path(out.stdout.strip())
    if source.is_relative_to("/root") or source.is_relative_to("/home"):
        return  # a private git: its commands are built in, only `git submodule` needs this directory
    target = _inside(root, source)
    target.mkdir(parents=True, exist_ok=True)
    for name in _GIT_LINKS:
        (target / name).symlink_to(os.path.relpath(root / "usr/bin/git", target))
    for name in _GIT_HELPERS:
        if (source / name).is_file() and _usable(source / name):
            _copy((source / name).resolve(), target / name, copied)
    (root / "usr/share/git-core/templates").mkdir(parents=True, exist_ok=True)


def _interpreter() -> Path:
    path = Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()
    if not path.is_file():
        raise EnvironmentStartError(f"image 'host': the interpreter {path} of this process is not a file")
    return path


def _stdlib() -> Path:
    return Path(os.__file__).resolve().parent


def _python(root: Path) -> list[Path]:
    """Install the base interpreter below /usr/local; returns the binaries that it consists of."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    target = root / "usr/local/bin" / version
    shutil.copyfile(_interpreter(), target)
    target.chmod(0o755)
    for name in ("python", "python3"):
        (target.parent / name).symlink_to(version)
    source = _stdlib()
    lib = root / "usr/local" / source.parent.name / version
    shutil.copytree(source, lib, symlinks=False, ignore_dangling_symlinks=True, ignore=_ignored)
    dynload = next((Path(p) for p in sys.path if p.endswith("lib-dynload")), source / "lib-dynload")
    if not (lib / "lib-dynload").exists() and dynload.is_dir():
        shutil.copytree(dynload, lib / "lib-dynload")
    for path in (lib, *lib.rglob("*")):
        path.chmod(0o755 if path.is_dir() else path.stat().st_mode & 0o755 | 0o444)
    return [_interpreter(), *dynload.glob("*.so")]


def _ignored(directory: str, names: list[str]) -> Iterable[str]:
    top = Path(directory) == _stdlib()
    drop = {name for name in names if name.endswith((".opt-1.pyc", ".opt-2.pyc", ".a"))}
    if top:
        drop |= {name for name in names if name in _STDLIB_DROP or name.startswith("config-")}
    return drop


def _libraries(root: Path, binaries: list[Path]) -> None:
    """Copy the shared libraries that `binaries` need into the directory in which the loader looks by default."""
    libraries = needed_libraries(binaries)
    libc = next((path for name, path in libraries.items() if name.startswith("libc.")), None)
    if libc is None:
        return  # everything is static
    default = _inside(root, libc.parent)
    for name in (*_LIBRARY_EXTRAS, *_OF_WHEELS):
        if (libc.parent / name).exists():
            libraries.setdefault(name, libc.parent / name)
    copied: dict[Path, Path] = {}
    for name, path in sorted(libraries.items()):
        where = _inside(root, path) if name.startswith("ld-") else default / name
        _copy(path.resolve(), where, copied)
    locale = Path("/usr/lib/locale/C.utf8")
    if locale.is_dir():
        shutil.copytree(locale, root / "usr/lib/locale/C.utf8", dirs_exist_ok=True)
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
            path.chmod(0o755)
