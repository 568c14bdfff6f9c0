"""Combinations of verl settings that would train on something else than what this package promises.

Called before Ray starts. Each refusal names the key, what was found and what to write instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omegaconf import DictConfig, OmegaConf

from swe_plugin.config import load_config
from swe_plugin.errors import ConfigError
from swe_plugin.verl_adapter.groups import PER_ROW_ESTIMATORS

__all__ = ["ESTIMATORS", "MANAGER", "SAMPLER", "check_verl_config"]

MANAGER = "swe_plugin.verl_adapter.manager.SweAgentLoopManager"
"""Value of ``actor_rollout_ref.rollout.agent.agent_loop_manager_class``."""

SAMPLER = ("pkg://swe_plugin.verl_adapter.sampler", "make_replay_buffer")
"""Values of ``trainer.v1.sampler.custom_sampler.path`` and ``.name``."""

ESTIMATORS = frozenset({"grpo"}) | PER_ROW_ESTIMATORS
"""Advantage estimators that are right for a trajectory of several segments: verl counts a session once only
for ``grpo``, and these others do not compare the members of a group."""

_ROLLOUT = "actor_rollout_ref.rollout"
_ACTOR = "actor_rollout_ref.actor"
_Check = Iterator[tuple[bool, str, str]]
"""(holds, key, what to write instead)"""


def check_verl_config(config: DictConfig) -> None:
    """Refuse settings of verl that break a rule of this package.

    Args:
        config: the whole composed configuration.

    Raises:
        ConfigError: the first rule that does not hold.
    """
    for check in (_wiring, _batches, _algorithm):
        for holds, key, fix in check(config):
            if not holds:
                raise ConfigError(key, _get(config, key), fix)


def _wiring(config: DictConfig) -> _Check:
    """The parts that make the rules hold are installed."""
    restore = "leave it as the recipe has it; it carries the group rule, the watchdog and the breaker"
    sampler = "trainer.v1.sampler.custom_sampler"
    yield bool(_get(config, "trainer.use_v1")), "trainer.use_v1", "must be true: only V1 takes rows of several segments"
    key = f"{_ROLLOUT}.agent.agent_loop_manager_class"
    yield _get(config, key) == MANAGER, key, restore
    yield _get(config, f"{sampler}.path") == SAMPLER[0], f"{sampler}.path", restore
    yield _get(config, f"{sampler}.name") == SAMPLER[1], f"{sampler}.name", restore
    key = f"{_ROLLOUT}.calculate_log_probs"
    yield bool(_get(config, key)), key, "must be true: rows carry the log-probs they were sampled with"


def _batches(config: DictConfig) -> _Check:
    """The number of rows varies, so verl pads; the padding must not gather in one update."""
    shuffle = "must be true: otherwise the padding of a short batch gathers in the last update"
    yield bool(_get(config, f"{_ACTOR}.shuffle")), f"{_ACTOR}.shuffle", shuffle
    mini = _get(config, f"{_ACTOR}.ppo_mini_batch_size")
    prompts = _get(config, "data.train_batch_size")
    key = f"{_ACTOR}.ppo_mini_batch_size"
    yield bool(mini) and prompts % mini == 0, key, f"must divide data.train_batch_size={prompts}"
    if _uses_critic(config):
        yield bool(_get(config, "critic.shuffle")), "critic.shuffle", shuffle
        same = f"must equal {key}={mini}: unequal ones give updates without a single real row"
        yield _get(config, "critic.ppo_mini_batch_size") == mini, "critic.ppo_mini_batch_size", same


def _algorithm(config: DictConfig) -> _Check:
    """One trajectory counts once, however many segments it has, and groups can survive."""
    key = "algorithm.adv_estimator"
    estimator = _get(config, key)
    yield estimator in ESTIMATORS, key, f"must be one of {', '.join(sorted(ESTIMATORS))}: others weigh segments"
    key = f"{_ACTOR}.loss_agg_mode"
    mode = str(_get(config, key))
    weighs = "weighs a trajectory by the number of its segments; use token-mean or token-sum"
    yield not mode.startswith("seq-mean"), key, weighs
    if estimator not in PER_ROW_ESTIMATORS:
        least = load_config(config.get("swe")).failure.min_survivors
        yield least >= 2, "swe.failure.min_survivors", "must be at least 2: alone, a reward becomes its own advantage"
        key = f"{_ROLLOUT}.n"
        enough = f"must be at least swe.failure.min_survivors={least}, or every group is dropped"
        yield _get(config, key) >= least, key, enough


def _uses_critic(config: DictConfig) -> bool:
    """verl's own rule: what ``critic.enable`` says, else whether the estimator is GAE."""
    enable = _get(config, "critic.enable")
    return bool(enable) if enable is not None else _get(config, "algorithm.adv_estimator") == "gae"


def _get(config: DictConfig, key: str) -> Any:
    """The value of a dotted key; ``swe.*`` keys that were left out have their defaults."""
    value = OmegaConf.select(config, key)
    if value is None and key.startswith("swe."):
        _, section, name = key.split(".")
        return getattr(getattr(load_config(config.get("swe")), section), name)
    return value
