"""Namespaces and cgroups: the sandbox's own probe as findings."""

from __future__ import annotations

from collections.abc import Iterator

from swe_plugin.environments.sandbox import borrowed_zygote, probe
from swe_plugin.errors import EnvironmentStartError
from swe_plugin.preflight.finding import Finding

__all__ = ["look_at_sandboxes"]


def look_at_sandboxes(*, needed: bool) -> Iterator[Finding]:
    """Try the sandbox for real, about 0.3 s, and say how its limits are held.

    Args:
        needed: the recipe's environments are sandboxes; otherwise their absence is no failure.
    """
    try:
        with borrowed_zygote():
            report = probe()
    except (OSError, EnvironmentStartError) as error:
        yield Finding("namespaces", not needed, str(error), "sandbox", "no trial", str(error))
        return
    failed = [check for check in report.checks if not check.ok and not check.name.startswith("cgroup")]
    reasons = "; ".join(f"{check.name}: {check.detail} ({check.fix})" for check in failed)
    seen = f"sandbox mode {report.mode}{report.for_root}" if report.mode else f"no sandboxes here: {reasons}"
    yield Finding("namespaces", bool(report.mode) or not needed, seen, "sandbox", "no mode works", reasons)
    held = {check.name.removeprefix("cgroup "): check for check in report.checks if check.name.startswith("cgroup")}
    if held:
        lines = (f"{name}: {report.limits.get(name, check.detail)}" for name, check in held.items())
        yield Finding("cgroups", True, "; ".join(lines))
