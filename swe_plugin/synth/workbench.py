"""The image that a project's tests run in: this machine's tools and Python, and what the project needs."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from swe_plugin.environments.home import home
from swe_plugin.environments.images import ImageStore
from swe_plugin.environments.images.host import build_host_image, host_image_key
from swe_plugin.errors import ConfigError, EnvironmentStartError

__all__ = ["build_workbench", "merged_requirements"]

_SITE = f"usr/local/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


def build_workbench(requirements: Sequence[str]) -> str:
    """`Image.base` of a root directory with the requirements in its Python; built once per machine. Blocking.

    Only wheels are installed, so that no code of a package runs on this machine.

    Args:
        requirements: lines as in a requirements file.

    Raises:
        ConfigError: pip cannot have them; says why.
        EnvironmentStartError: this machine lacks a tool that agents cannot do without.
    """

    def build(root: Path) -> None:
        build_host_image(root)
        _install(requirements, root / _SITE)

    text = json.dumps(["workbench-1", host_image_key(), sorted(requirements)])
    key = hashlib.sha256(text.encode()).hexdigest()[:32]
    return f"rootfs:{ImageStore(home() / 'workbenches').get(key, build)}"


def merged_requirements(needed: Sequence[str], wanted: Sequence[str], project: str) -> tuple[str, ...]:
    """Requirement lines, those of the caller instead of the project's own for the same package.

    Raises:
        ConfigError: one of `wanted` is no requirement, or is the project itself, whose installed copy would show the
            fix to every agent.
    """
    chosen = {canonicalize_name(Requirement(line).name): line for line in ("pytest", *needed)}
    for line in wanted:
        try:
            name = canonicalize_name(Requirement(line).name)
        except InvalidRequirement as error:
            raise ConfigError("--with", line, f"is no requirement: {error}") from error
        if name == project:
            raise ConfigError("--with", line, "is the project itself: an installed copy shows every agent the fix")
        chosen[name] = line
    return tuple(chosen.values())


def _install(requirements: Sequence[str], target: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
    words = ["--only-binary", ":all:", "--target", str(target), *requirements]
    run = subprocess.run([*command, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if run.returncode:
        lines = [line for line in run.stderr.strip().splitlines() if line.startswith("ERROR")]
        reason = " ".join(lines or run.stderr.strip().splitlines()[-1:]) or "pip said nothing"
        fix = f"cannot be installed: {reason}; name others with --with, or an image with --image"
        raise ConfigError("requirements", " ".join(requirements), fix)
    if not any(target.iterdir()):
        raise EnvironmentStartError(f"pip installed nothing into {target}")
