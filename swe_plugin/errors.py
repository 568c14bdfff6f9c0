"""Every error this package raises on purpose, and what each one means for a rollout.

The rule behind the tree: **a failure of infrastructure is never a reward**. An error below
`InfrastructureError` says nothing about the policy; its rollout yields no training row. An agent's own
failure (a wrong command, a time-out of a command) is not an exception at all: it is a result.

Errors also inherit the matching builtin, so that callers who do not know this package can catch
`TimeoutError`, `ConnectionError` or `ValueError`.
"""

from __future__ import annotations

__all__ = [
    "BudgetSpent",
    "ConfigError",
    "ContextOverflow",
    "EnvironmentStartError",
    "EnvironmentUnavailable",
    "GraderError",
    "GraderTimeout",
    "GradingAborted",
    "InfrastructureError",
    "PatchError",
    "PluginError",
    "PolicyError",
    "PromptTooLong",
    "RolloutCancelled",
    "ScaffoldError",
    "SwePluginError",
    "TokenStreamError",
    "TooManyFailures",
]


class SwePluginError(Exception):
    """Root of all errors of this package."""


class ConfigError(SwePluginError, ValueError):
    """A setting is wrong. The message names the key, the value and the fix.

    Args:
        key: dotted path of the setting, e.g. ``swe.environment.backend``.
        value: what was found there.
        fix: one sentence that says what to write instead.
    """

    def __init__(self, key: str, value: object, fix: str) -> None:
        self.key, self.value, self.fix = key, value, fix
        super().__init__(f"{key}={value!r}: {fix}")

    def __reduce__(self) -> tuple[type[ConfigError], tuple[str, object, str]]:
        return type(self), (self.key, self.value, self.fix)


class PluginError(SwePluginError, ImportError):
    """A plugin could not be loaded, or two plugins claim one name. Names the distributions."""


class InfrastructureError(SwePluginError, RuntimeError):
    """Something other than the policy failed; the rollout yields no row."""


class EnvironmentStartError(InfrastructureError):
    """An environment did not become ready (bad image, no permission, time-out at start)."""


class EnvironmentUnavailable(InfrastructureError, ConnectionError):
    """A started environment is gone (supervisor dead, daemon unreachable)."""


class PolicyError(InfrastructureError):
    """The inference server failed to answer (not: answered badly)."""


class GraderError(InfrastructureError):
    """Grading broke in a way that says nothing about the patch. Ungradable is not zero."""


class GradingAborted(GraderError):
    """Tests began and hit a limit (memory, disk, output): the patch's doing, or not; a control run tells."""


class GraderTimeout(GradingAborted, TimeoutError):
    """The tests did not end in time although the environment is healthy."""


class PatchError(GraderError):
    """The agent's changes could not be read as a patch, or a patch does not apply to the baseline."""


class RolloutCancelled(InfrastructureError):
    """The rollout was told to stop (staleness, shutdown)."""


class TooManyFailures(InfrastructureError):
    """The circuit breaker opened: the run stops and says why instead of eating the dataset."""


class ScaffoldError(SwePluginError, RuntimeError):
    """An agent does not work as configured (it is not installed, never asks the policy): a bug, never a reward."""


class ContextOverflow(SwePluginError):
    """The next prompt does not fit the model's window: the rollout ends, its tokens stay valid."""


class BudgetSpent(ContextOverflow):
    """The rollout has cost what it may: it ends as if no room were left for another answer."""


class PromptTooLong(SwePluginError, ValueError):
    """The first prompt of a rollout leaves no room for an answer. It is never cut: the limits or the data are wrong."""


class TokenStreamError(SwePluginError, AssertionError):
    """A token stream would break a rule of `swe_plugin.tokens`; a bug, never data."""
