"""Combinations of verl settings that would train on something else than what this package promises."""

from __future__ import annotations

from collections.abc import Iterator

from swe_plugin.preflight.finding import Finding
from swe_plugin.verl_adapter.checks.settings import ACTOR, ROLLOUT, Settings
from swe_plugin.verl_adapter.groups import PER_ROW_ESTIMATORS

__all__ = ["DATASET", "ESTIMATORS", "MANAGER", "SAMPLER", "check_rules", "uses_critic"]

MANAGER = "swe_plugin.verl_adapter.manager.SweAgentLoopManager"
"""Value of ``actor_rollout_ref.rollout.agent.agent_loop_manager_class``."""

DATASET = ("pkg://swe_plugin.verl_adapter.dataset", "SweDataset")
"""Values of ``data.custom_cls.path`` and ``.name``: rows that say where they stand."""

SAMPLER = ("pkg://swe_plugin.verl_adapter.sampler", "make_replay_buffer")
"""Values of ``trainer.v1.sampler.custom_sampler.path`` and ``.name``."""

ESTIMATORS = frozenset({"grpo"}) | PER_ROW_ESTIMATORS
"""Advantage estimators that are right for a trajectory of several segments: verl counts a session once only
for ``grpo``, and these others do not compare the members of a group."""

ROW_LOSSES = frozenset({"sapo", "geo_mean"})
"""Policy losses of verl that average over rows by themselves."""


def check_rules(s: Settings) -> Iterator[Finding]:
    """Wiring, batches and algorithm."""
    yield from _wiring(s)
    yield from _batches(s)
    yield from _algorithm(s)
    yield from _overlap(s)


def uses_critic(s: Settings) -> bool:
    """verl's own rule: what ``critic.enable`` says, else whether the estimator is GAE."""
    enable = s.get("critic.enable")
    return bool(enable) if enable is not None else s.get("algorithm.adv_estimator") == "gae"


def _wiring(s: Settings) -> Iterator[Finding]:
    """The parts that make the rules hold are installed."""
    key = "trainer.use_v1"
    yield s.rule(key, bool(s.get(key)), "must be true: only V1 takes rows of several segments")
    sampler = "trainer.v1.sampler.custom_sampler"
    restore = "leave it as the recipe has it; it carries the group rule, the watchdog and the breaker"
    for key, value in {
        f"{ROLLOUT}.agent.agent_loop_manager_class": MANAGER,
        f"{sampler}.path": SAMPLER[0],
        f"{sampler}.name": SAMPLER[1],
    }.items():
        yield s.rule(key, s.get(key) == value, restore)
    key = f"{ROLLOUT}.calculate_log_probs"
    yield s.rule(key, bool(s.get(key)), "must be true: rows carry the log-probs they were sampled with")


def _batches(s: Settings) -> Iterator[Finding]:
    """The number of rows varies, so verl pads; the padding must not gather in one update."""
    shuffle = "must be true: otherwise the padding of a short batch gathers in the last update"
    key = f"{ACTOR}.shuffle"
    yield s.rule(key, bool(s.get(key)), shuffle)
    key = f"{ACTOR}.ppo_mini_batch_size"
    mini, prompts = s.get(key), s.get("data.train_batch_size")
    yield s.rule(key, bool(mini) and prompts % mini == 0, f"must divide data.train_batch_size={prompts}")
    if uses_critic(s):
        yield s.rule("critic.shuffle", bool(s.get("critic.shuffle")), shuffle)
        same = f"must equal {key}={mini}: unequal ones give updates without a single real row"
        key = "critic.ppo_mini_batch_size"
        yield s.rule(key, s.get(key) == mini, same)


def _algorithm(s: Settings) -> Iterator[Finding]:
    """One trajectory counts once, however many segments it has, and groups can survive."""
    key = "algorithm.adv_estimator"
    estimator = s.get(key)
    known = ", ".join(sorted(ESTIMATORS))
    yield s.rule(key, estimator in ESTIMATORS, f"must be one of {known}: others weigh segments", str(estimator))
    weighs = "weighs a trajectory by the number of its segments"
    for key in (f"{ACTOR}.loss_agg_mode", *(["critic.loss_agg_mode"] if uses_critic(s) else [])):
        mode = str(s.get(key))
        yield s.rule(key, not mode.startswith("seq-mean"), f"{weighs}; use token-mean or token-sum", mode)
    key = f"{ACTOR}.policy_loss.loss_mode"
    yield s.rule(key, s.get(key) not in ROW_LOSSES, f"{weighs}, whatever loss_agg_mode is; use vanilla or gspo")
    yield from _zero_advantage(s, estimator)
    if estimator in PER_ROW_ESTIMATORS:
        return
    key = "swe.failure.min_survivors"
    least = s.get(key)
    yield s.rule(key, least >= 2, "must be at least 2: alone, a reward becomes its own advantage")
    key = f"{ROLLOUT}.n"
    enough = f"must be at least swe.failure.min_survivors={least}, or every group is dropped"
    yield s.rule(key, s.get(key) >= least, enough, f"groups of {s.get(key)}")


def _zero_advantage(s: Settings, estimator: str) -> Iterator[Finding]:
    """Equal rewards mean no advantage only where members are compared, and only one of two filters takes groups out."""
    key = "swe.failure.zero_advantage"
    if s.get(key) == "keep":
        return
    fix = f"must be keep with algorithm.adv_estimator={estimator}: it does not compare the members of a group"
    yield s.rule(key, estimator not in PER_ROW_ESTIMATORS, fix, str(s.get(key)))
    if s.get(key) == "drop":
        filtering = bool(s.get("algorithm.filter_groups.enable"))
        yield s.rule(key, not filtering, "must be keep or refill with algorithm.filter_groups.enable=true")


def _overlap(s: Settings) -> Iterator[Finding]:
    """What is started ahead is what will be asked for, by weights that the mode allows."""
    overlap = s.swe.overlap
    key = "trainer.v1.trainer_mode"
    mode = s.get(key)
    if mode != "sync":
        fix = (
            f"must be -1 with {key}={mode}: an answer that goes on after a weight sync would repeat its random numbers"
        )
        yield s.rule("swe.policy.seed", s.swe.policy.seed < 0, fix)
    if overlap == "off":
        return
    if overlap == "prewarm":
        yield s.rule(key, mode == "sync", "must be sync with swe.overlap=prewarm, or say swe.overlap=async", str(mode))
    else:
        yield s.rule(key, mode != "sync", "must be colocate_async or separate_async with swe.overlap=async", str(mode))
        key = "trainer.v1.sampler.max_off_policy_threshold"
        yield s.rule(key, s.get(key) is not None, "must be a number: without one, rollouts of any age are trained on")
    for key, value in zip(("data.custom_cls.path", "data.custom_cls.name"), DATASET, strict=True):
        fix = (
            f"must be {value} with swe.overlap={overlap}: a dataset of your own cannot be foreseen; or swe.overlap=off"
        )
        yield s.rule(key, s.get(key) == value, fix)
