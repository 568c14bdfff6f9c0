"""What values may be, alone and together."""

from __future__ import annotations

import datetime

from swe_plugin.config.schema import SweConfig
from swe_plugin.errors import ConfigError

__all__ = ["check_limits"]

_MOST_RESERVED = 0.4


def check_limits(config: SweConfig) -> None:
    """Refuse values that make no sense.

    Raises:
        ConfigError: names the first one and what it must be.
    """
    scaffold = config.scaffold
    if scaffold.command_timeout_s > scaffold.wall_clock_s:
        raise ConfigError(
            "swe.scaffold.command_timeout_s",
            scaffold.command_timeout_s,
            f"must not exceed swe.scaffold.wall_clock_s={scaffold.wall_clock_s}",
        )
    if scaffold.wall_clock_s > config.failure.rollout_timeout_s:
        raise ConfigError(
            "swe.scaffold.wall_clock_s",
            scaffold.wall_clock_s,
            f"must not exceed swe.failure.rollout_timeout_s={config.failure.rollout_timeout_s}",
        )
    for key, value in {
        "swe.scaffold.max_turns": scaffold.max_turns,
        "swe.failure.max_attempts": config.failure.max_attempts,
        "swe.grading.max_attempts": config.grading.max_attempts,
        "swe.slots.start": config.slots.start,
        "swe.slots.running": config.slots.running,
        "swe.slots.grading": config.slots.grading,
        "swe.slots.io": config.slots.io,
    }.items():
        if value < 1:
            raise ConfigError(key, value, "must be at least 1")
    if not 0 <= config.slots.reserved <= _MOST_RESERVED:
        fix = f"must be from 0 to {_MOST_RESERVED}: it is kept twice, and the rest is for everybody"
        raise ConfigError("swe.slots.reserved", config.slots.reserved, fix)
    for key, value in {
        "swe.scaffold.keep_observations": scaffold.keep_observations,
        "swe.scaffold.summarize_after": scaffold.summarize_after,
    }.items():
        if value < 0:
            raise ConfigError(key, value, "must be 0 (the whole history is kept) or more")
    _check_date(config.policy.template_date)
    policies = ("ignore", "flag", "zero", "drop")
    honesty = ((f"swe.grading.honesty.{name}", text, policies) for name, text in vars(config.grading.honesty).items())
    for key, text, known in (
        *honesty,
        ("swe.environment.network", config.environment.network, ("none", "full")),
        ("swe.policy.on_rewrite", config.policy.on_rewrite, ("keep", "segment")),
        ("swe.scaffold.action", scaffold.action, ("fenced", "tools")),
        ("swe.overlap", config.overlap, ("off", "prewarm", "async")),
        ("swe.failure.zero_advantage", config.failure.zero_advantage, ("keep", "drop", "refill")),
    ):
        if text not in known:
            raise ConfigError(key, text, f"must be one of {', '.join(known)}")


def _check_date(text: str) -> None:
    try:
        datetime.date.fromisoformat(text or "2026-01-31")
    except ValueError as error:
        raise ConfigError("swe.policy.template_date", text, "must be a date like 2026-01-31, or empty") from error
