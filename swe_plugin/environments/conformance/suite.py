"""`ConformanceSuite`: all checks in one class."""

from __future__ import annotations

from swe_plugin.environments.conformance.commands import CommandChecks
from swe_plugin.environments.conformance.failures import FailureChecks
from swe_plugin.environments.conformance.files import FileChecks
from swe_plugin.environments.conformance.isolation import IsolationChecks
from swe_plugin.environments.conformance.lifecycle import LifecycleChecks
from swe_plugin.environments.conformance.limits import LimitChecks
from swe_plugin.environments.conformance.shell import ShellChecks
from swe_plugin.environments.conformance.trees import TreeChecks

__all__ = ["ConformanceSuite"]


class ConformanceSuite(
    LifecycleChecks,
    CommandChecks,
    ShellChecks,
    FileChecks,
    TreeChecks,
    IsolationChecks,
    LimitChecks,
    FailureChecks,
):
    """Subclass it under a name that starts with ``Test`` and set `backend`; pytest does the rest.

    A check of something the backend declares to lack (`Environment.lacks`) is skipped with the declared reason.
    """
