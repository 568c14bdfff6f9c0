"""The ``sandbox`` backend: Linux namespaces, overlay and seccomp, no daemon and no image registry."""

from __future__ import annotations

from swe_plugin.environments.sandbox.environment import SandboxEnvironment
from swe_plugin.environments.sandbox.owner import borrowed_zygote, close_zygote
from swe_plugin.environments.sandbox.probe import ProbeReport, probe

__all__ = ["ProbeReport", "SandboxEnvironment", "borrowed_zygote", "close_zygote", "probe"]
