"""verl's checks of its own settings, which it makes only after Ray has started."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator

from swe_plugin.preflight.finding import Finding
from swe_plugin.verl_adapter.checks.rules import uses_critic
from swe_plugin.verl_adapter.checks.settings import Settings

__all__ = ["check_own"]


def check_own(s: Settings) -> Iterator[Finding]:
    """Run ``verl.utils.config.validate_config`` and build the rollout's settings."""
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    needs_reference = bool(s.get("algorithm.use_kl_in_reward") or s.get("actor_rollout_ref.actor.use_kl_loss"))
    # verl loads the critic's model to look at its settings; that of the demo is not made yet.
    use_critic = uses_critic(s) and s.get("critic.model.path") is not None
    reason = ""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            validate_config(s.config, use_reference_policy=needs_reference, use_critic=use_critic)
            omega_conf_to_dataclass(s.config.actor_rollout_ref.rollout)
        except Exception as error:  # assertions, ValueErrors, and Hydra's wrappers around both
            reason = _innermost(error)
    yield Finding("verl", not reason, "validate_config accepts them", "verl's settings", "refused by verl", reason)


def _innermost(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error) or type(error).__name__
