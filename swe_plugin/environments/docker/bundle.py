"""The archive that brings our supervisor into containers: an interpreter, what it loads, and the guest's modules.

Made from the running interpreter, with the libraries and the loader of this machine, so that it works on top of
any Linux image of the same architecture: another C library, an old Python or none.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import py_compile
import subprocess
import sys
import tarfile
import tempfile
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
_LIST = f"""
import json, sys, types
for name in {_PACKAGES!r}:
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [{str(_TOP)!r} + "/" + name.replace(".", "/")]
import {_GUEST}
print(json.dumps(sorted(name for name in sys.modules if name != "__main__")))
"""


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
    modules = _modules()
    extensions = [path for path in modules.values() if path.suffix == ".so"]
    libraries = needed_libraries([_interpreter(), *extensions])
    loader = next((path for name, path in libraries.items() if name.startswith("ld-")), None)
    if loader is None:
        raise EnvironmentStartError(f"docker: {_interpreter()} needs no loader, which this backend relies on")
    stdlib = f"lib/python{sys.version_info.major}.{sys.version_info.minor}"
    with tarfile.open(target, "w") as archive, tempfile.TemporaryDirectory() as scratch:
        _add_file(archive, "bin/python", _interpreter(), 0o755)
        _add_file(archive, "lib/loader", loader.resolve(), 0o755)
        for name, path in sorted(libraries.items()):
            _add_file(archive, f"lib/{name}", path.resolve(), 0o755)
        _add_text(archive, f"{stdlib}/os.py", "")  # by it the interpreter finds its library
        for name, path in modules.items():
            where = "code" if name.startswith("swe_plugin") else stdlib
            if path.suffix == ".so":
                _add_file(archive, f"{stdlib}/lib-dynload/{path.name}", path, 0o755)
            else:
                package = "/__init__" if path.name == "__init__.py" else ""
                _add_module(archive, f"{where}/{name.replace('.', '/')}{package}", path, Path(scratch))
        for name in _PACKAGES:
            _add_text(archive, f"code/{name.replace('.', '/')}/__init__.py", "")
        _add_text(archive, "code/main.py", _MAIN)


def _interpreter() -> Path:
    return Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()


def _modules() -> dict[str, Path]:
    """Every module that a running guest has loaded -> its file; what is built in has none."""
    command = [str(_interpreter()), "-I", "-S", "-c", _LIST]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise EnvironmentStartError(f"docker: the supervisor cannot be loaded: {run.stderr.strip()[-500:]}")
    library = Path(os.__file__).parent
    dynload = next((Path(path) for path in sys.path if path.endswith("lib-dynload")), library / "lib-dynload")
    found: dict[str, Path] = {}
    for name in json.loads(run.stdout):
        relative = name.replace(".", "/")
        tops = (_TOP,) if name.startswith("swe_plugin") else (library,)
        candidates = [top / form for top in tops for form in (f"{relative}.py", f"{relative}/__init__.py")]
        path = next((path for path in [*candidates, *dynload.glob(f"{name}.*.so")] if path.is_file()), None)
        if path is not None and name not in _PACKAGES:
            found[name] = path
    return found


def _add_module(archive: tarfile.TarFile, name: str, path: Path, scratch: Path) -> None:
    """Compiled: a container cannot keep what it compiles, and would do it at every start."""
    compiled = scratch / "module.pyc"
    checked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(path), str(compiled), dfile=name, doraise=True, invalidation_mode=checked)
    if name.endswith("/os"):
        _add_file(
            archive, f"{name.removesuffix('os')}__pycache__/os.{sys.implementation.cache_tag}.pyc", compiled, 0o644
        )
    else:
        _add_file(archive, f"{name}.pyc", compiled, 0o644)


def _add_file(archive: tarfile.TarFile, name: str, path: Path, mode: int) -> None:
    with path.open("rb") as file:
        _add(archive, name, path.stat().st_size, mode, file)


def _add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    _add(archive, name, len(text), 0o644, io.BytesIO(text.encode()))


def _add(archive: tarfile.TarFile, name: str, size: int, mode: int, content: io.BufferedIOBase) -> None:
    member = tarfile.TarInfo(f"{MOUNT_POINT.lstrip('/')}/{name}")
    member.size, member.mode = size, mode
    archive.addfile(member, content)
