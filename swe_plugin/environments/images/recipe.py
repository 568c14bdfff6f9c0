"""The layers of a recipe that take running commands: requirements and set-up."""

from __future__ import annotations

import datetime
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from swe_plugin.environments.factory import AGENT_ENV
from swe_plugin.environments.images.elf import needed_libraries
from swe_plugin.environments.images.overlay import is_opaque, make_opaque
from swe_plugin.environments.images.repository import give
from swe_plugin.environments.images.view import MergedView
from swe_plugin.errors import EnvironmentStartError

__all__ = ["Runner", "check_recipe", "install_requirements", "run_setup"]

_TOOLS = "swe-build"
_PASSED_ON = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_ENV = {"HOME": "/tmp", "UV_CACHE_DIR": "/tmp/uv", "UV_LINK_MODE": "copy", "UV_NO_PROGRESS": "1"}  # noqa: S108


class Runner(Protocol):
    """Runs a script in layers, isolated, with network; what it writes goes into one more layer."""

    def __call__(
        self, layers: Sequence[Path], upper: Path, work: Path, script: str, *, workdir: str, env: Mapping[str, str]
    ) -> None:
        """Blocking.

        Args:
            layers: topmost first.
            upper: empty directory that becomes the layer.
            work: empty directory on the same file system, for the kernel.
            script: for bash, ended by the first command that fails.
            workdir: where it runs.
            env: variables beside the usual ones.

        Raises:
            EnvironmentStartError: it failed, or cannot be run here; the message ends with what it printed last.
        """
        ...


def check_recipe(python: str, requirements: Sequence[str], as_of: str) -> None:
    """Refuse settings that contradict.

    Raises:
        EnvironmentStartError: names the one to change.
    """
    if requirements and not python:
        raise EnvironmentStartError("image.python is empty: requirements need the interpreter they are installed for")
    if as_of:
        try:
            datetime.date.fromisoformat(as_of)
        except ValueError:
            raise EnvironmentStartError(f"image.as_of={as_of!r}: must be a day, YYYY-MM-DD") from None


def install_requirements(
    run: Runner,
    layers: Sequence[Path],
    upper: Path,
    scratch: Path,
    *,
    python: str,
    requirements: Sequence[str],
    as_of: str,
    env: Mapping[str, str],
) -> None:
    """Install with uv, which is brought along for the time being.

    Args:
        run: runs it.
        layers: what it runs in, topmost first.
        upper: the layer.
        scratch: empty directory on the file system of `upper`.
        python, requirements, as_of: see `types.Image`.
        env: variables that the image sets.

    Raises:
        EnvironmentStartError: no uv here, or what `run` raises.
    """
    if not (uv := _find_uv()):
        raise EnvironmentStartError(
            "requirements are installed with uv, which is not here: pip install swe-plugin[images]"
        )
    variables = _bring_tools(scratch / "tools", env, uv)
    (scratch / "tools" / _TOOLS / "requirements.txt").write_text("\n".join([*requirements, ""]))
    words = ["uv", "pip", "install", "--break-system-packages"]
    words += ["--exclude-newer", f"{as_of}T23:59:59Z"] if as_of else []
    script = shlex.join([*words, "-r", f"/{_TOOLS}/requirements.txt"])
    script += f' --python "$(command -v {shlex.quote(python)})"'  # by name, uv would look for a virtual environment
    run([scratch / "tools", *layers], upper, _work(scratch), script, workdir="/", env=variables)
    _restore(upper)


def run_setup(
    run: Runner,
    layers: Sequence[Path],
    upper: Path,
    scratch: Path,
    *,
    commands: Sequence[str],
    workdir: str,
    owner: tuple[int, int],
    env: Mapping[str, str],
) -> None:
    """Run the set-up commands; what they leave in the work directory becomes the owner's.

    Args:
        run, layers, upper, scratch, env: see `install_requirements`.
        commands: in their order.
        workdir: where they run.
        owner: user and group id, on this machine.

    Raises:
        EnvironmentStartError: what `run` raises.
    """
    variables = _bring_tools(scratch / "tools", env, _find_uv())
    run([scratch / "tools", *layers], upper, _work(scratch), "\n".join(commands), workdir=workdir, env=variables)
    _restore(upper)
    top = MergedView([upper]).lookup(workdir)
    if top is not None and top.is_dir() and not top.is_symlink():
        give(top, owner)


def _bring_tools(tools: Path, env: Mapping[str, str], uv: str) -> dict[str, str]:
    """Fill a layer with uv, if there is one, and the certificates of this machine: what reaches the network.

    Returns `env` with the variables that belong to it.
    """
    passed = {name: value for name, value in os.environ.items() if name in _PASSED_ON or name.startswith("UV_")}
    (tools / _TOOLS / "bin").mkdir(parents=True)
    if certificates := os.environ.get("SSL_CERT_FILE"):  # of a company's proxy, for example: the image lacks them
        shutil.copy(certificates, tools / _TOOLS / "certificates.pem")
        passed["SSL_CERT_FILE"] = f"/{_TOOLS}/certificates.pem"
    if uv:
        _bring_uv(tools, Path(uv))
    path = f"{env.get('PATH', AGENT_ENV['PATH'])}:/{_TOOLS}/bin"
    return {**env, **passed, **_ENV, "PATH": path}


def _work(scratch: Path) -> Path:
    work = scratch / "work"
    work.mkdir(parents=True)
    return work


def _restore(upper: Path) -> None:
    """Take out what the run itself brought, and mark directories for both kinds of mounts."""
    if (resolver := MergedView([upper]).lookup("/etc/resolv.conf")) is not None:  # not through a link of theirs
        resolver.unlink()
    for directory, _, _ in os.walk(upper):
        if is_opaque(Path(directory)):
            make_opaque(Path(directory))


def _bring_uv(root: Path, uv: Path) -> None:
    """Copy uv with its libraries, which the image may not have, and a script that runs it there."""
    (root / _TOOLS / "lib").mkdir()
    shutil.copy(uv, root / _TOOLS / "uv")
    libraries = needed_libraries([uv])
    for name, path in libraries.items():
        shutil.copy(path, root / _TOOLS / "lib" / name)
    loader = [f"/{_TOOLS}/lib/{name}" for name in libraries if name.startswith("ld-")]
    words = [*loader, *(["--library-path", f"/{_TOOLS}/lib"] if loader else []), f"/{_TOOLS}/uv"]
    script = root / _TOOLS / "bin" / "uv"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    script.chmod(0o755)


def _find_uv() -> str:
    """Path of uv on this machine; empty: there is none."""
    try:
        from uv import find_uv_bin
    except ImportError:
        return shutil.which("uv") or ""
    return str(find_uv_bin())
