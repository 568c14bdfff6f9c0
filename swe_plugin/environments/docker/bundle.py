"""The archive that brings our supervisor into containers: an interpreter, what it loads, and the guest's modules.

Made from the running interpreter, with the libraries and the loader of this machine, so that it works on top of
any Linux image of the same architecture: another C library, an old Python or none. A fresh interpreter makes it: it
knows what the guest loads, and compiling there keeps no event loop of ours from its interpreter lock.
"""

from __future__ import annotations

import hashlib
import io
import marshal
import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from functools import cache
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path

from swe_plugin.environments.images.elf import needed_libraries
from swe_plugin.errors import EnvironmentStartError

__all__ = ["COMMAND", "MOUNT_POINT", "bundle_key", "write_bundle"]

MOUNT_POINT = "/.swe-plugin"
COMMAND = [
    f"{MOUNT_POINT}/lib/loader",
    "--library-path",
    f"{MOUNT_POINT}/lib",
    f"{MOUNT_POINT}/bin/python",
    *("-I", "-S", f"{MOUNT_POINT}/code/main.py"),
]
_RECIPE = "guest-1"
"""Part of the key: raise it when this module builds something else from the same files."""
_PACKAGES = (
    "swe_plugin",
    "swe_plugin.environments",
    "swe_plugin.environments.sandbox",
    "swe_plugin.environments.docker",
)
_GUEST = "swe_plugin.environments.docker.guest"
_TOP = Path(__file__).parents[3]
_MAIN = f"import sys\nsys.path.insert(0, '{MOUNT_POINT}/code')\nfrom {_GUEST} import main\nmain()\n"
_UNCHECKED = (1).to_bytes(4, "little")
"""Flags of a compiled module that is not compared with its source, which is not there (PEP 552)."""
_MAKE = f"""
import sys, types
for name in {(*_PACKAGES, "swe_plugin.environments.images")!r}:
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [{str(_TOP)!r} + "/" + name.replace(".", "/")]
import {_GUEST}
loaded = sorted(name for name in sys.modules if name != "__main__")
from swe_plugin.environments.docker.bundle import pack
pack(sys.argv[1], loaded)
"""


@cache
def bundle_key() -> str:
    """Digest of the interpreter and of our modules."""
    info = _interpreter().stat()
    parts = [_RECIPE, sys.version, f"{_interpreter()} {info.st_size} {info.st_mtime_ns}"]
    folder = Path(__file__).parent
    for path in sorted([*folder.glob("guest*.py"), *(folder.parent / "sandbox/zygote").glob("*.py")]):
        parts.append(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def write_bundle(target: Path) -> None:
    """Write the archive, whose entries are below `MOUNT_POINT`. Blocking, a second or two.

    Raises:
        EnvironmentStartError: a part of it is missing on this machine.
    """
    command = [str(_interpreter()), "-I", "-S", "-c", _MAKE, str(target)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise EnvironmentStartError(f"docker: the supervisor cannot be packed: {run.stderr.strip()[-500:]}")


def pack(target: str, loaded: Sequence[str]) -> None:
    """What `write_bundle` has a fresh interpreter do.

    Args:
        target: the archive.
        loaded: names of all modules of a running guest.

    Raises:
        EnvironmentStartError: see `write_bundle`.
    """
    modules = _modules(loaded)
    extensions = [path for path in modules.values() if path.suffix == ".so"]
    libraries = needed_libraries([_interpreter(), *extensions])
    loader = next((path for name, path in libraries.items() if name.startswith("ld-")), None)
    if loader is None:
        raise EnvironmentStartError(f"docker: {_interpreter()} needs no loader, which this backend relies on")
    stdlib = f"lib/python{sys.version_info.major}.{sys.version_info.minor}"
    with tarfile.open(target, "w") as archive:
        _add_file(archive, "bin/python", _interpreter(), 0o755)
        _add_file(archive, "lib/loader", loader.resolve(), 0o755)
        for name, path in sorted(libraries.items()):
            _add_file(archive, f"lib/{name}", path.resolve(), 0o755)
        _add_content(archive, f"{stdlib}/os.py", b"")  # by it the interpreter finds its library
        for name, path in modules.items():
            where = "code" if name.startswith("swe_plugin") else stdlib
            if path.suffix == ".so":
                _add_file(archive, f"{stdlib}/lib-dynload/{path.name}", path, 0o755)
            else:
                package = "/__init__" if path.name == "__init__.py" else ""
                _add_module(archive, f"{where}/{name.replace('.', '/')}{package}", path)
        for name in _PACKAGES:
            _add_content(archive, f"code/{name.replace('.', '/')}/__init__.py", b"")
        _add_content(archive, "code/main.py", _MAIN.encode())


def _interpreter() -> Path:
    return Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()


def _modules(loaded: Sequence[str]) -> dict[str, Path]:
    """Module -> its file; what is built in has none."""
    library = Path(os.__file__).parent
    dynload = next((Path(path) for path in sys.path if path.endswith("lib-dynload")), library / "lib-dynload")
    found: dict[str, Path] = {}
    for name in loaded:
        relative = name.replace(".", "/")
        tops = (_TOP,) if name.startswith("swe_plugin") else (library,)
        candidates = [top / form for top in tops for form in (f"{relative}.py", f"{relative}/__init__.py")]
        path = next((path for path in [*candidates, *dynload.glob(f"{name}.*.so")] if path.is_file()), None)
        if path is not None and name not in _PACKAGES:
            found[name] = path
    return found


def _add_module(archive: tarfile.TarFile, name: str, path: Path) -> None:
    """Compiled: a container cannot keep what it compiles, and would do it at every start."""
    source = path.read_bytes()
    code = compile(source, name, "exec", dont_inherit=True)
    compiled = MAGIC_NUMBER + _UNCHECKED + source_hash(source) + marshal.dumps(code)
    if name.endswith("/os"):
        name = f"{name.removesuffix('os')}__pycache__/os.{sys.implementation.cache_tag}"
    _add_content(archive, f"{name}.pyc", compiled)


def _add_file(archive: tarfile.TarFile, name: str, path: Path, mode: int) -> None:
    with path.open("rb") as file:
        _add(archive, name, path.stat().st_size, mode, file)


def _add_content(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    _add(archive, name, len(content), 0o644, io.BytesIO(content))


def _add(archive: tarfile.TarFile, name: str, size: int, mode: int, content: io.BufferedIOBase) -> None:
    member = tarfile.TarInfo(f"{MOUNT_POINT.lstrip('/')}/{name}")
    member.size, member.mode = size, mode
    archive.addfile(member, content)
