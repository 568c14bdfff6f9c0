import pytest
from omegaconf import OmegaConf

from swe_plugin.errors import ConfigError
from swe_plugin.verl_adapter.checks import RULES, require


def test_the_wiring_of_a_recipe_is_accepted(config):
    require(config, RULES)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("trainer.use_v1", False, "V1"),
        ("actor_rollout_ref.rollout.agent.agent_loop_manager_class", None, "group rule"),
        ("trainer.v1.sampler.custom_sampler.path", None, "breaker"),
        ("trainer.v1.sampler.custom_sampler.name", "ReplayBuffer", "breaker"),
        ("actor_rollout_ref.rollout.calculate_log_probs", False, "log-probs"),
        ("actor_rollout_ref.actor.shuffle", False, "padding"),
        ("actor_rollout_ref.actor.ppo_mini_batch_size", 3, "divide"),
        ("actor_rollout_ref.actor.loss_agg_mode", "seq-mean-token-mean", "token-mean"),
        ("actor_rollout_ref.actor.loss_agg_mode", "seq-mean-token-sum-norm", "segments"),
        ("actor_rollout_ref.actor.policy_loss.loss_mode", "sapo", "segments"),
        ("actor_rollout_ref.actor.policy_loss.loss_mode", "geo_mean", "segments"),
        ("algorithm.adv_estimator", "rloo", "grpo"),
        ("swe.failure.min_survivors", 1, "at least 2"),
        ("actor_rollout_ref.rollout.n", 1, "every group is dropped"),
    ],
)
def test_a_combination_that_would_train_on_something_else_is_refused(config, key, value, says):
    OmegaConf.update(config, key, value, force_add=True)
    with pytest.raises(ConfigError, match=says) as raised:
        require(config, RULES)
    assert raised.value.key == key


@pytest.mark.parametrize(
    ("key", "value"),
    [("critic.ppo_mini_batch_size", 1), ("critic.shuffle", False), ("critic.loss_agg_mode", "seq-mean-token-mean")],
    ids=["unequal", "unshuffled", "weighs segments"],
)
def test_a_critic_must_see_the_same_updates_as_the_actor(config, key, value):
    OmegaConf.update(config, key, value)
    require(config, RULES)  # without a critic its settings do not matter
    config.algorithm.adv_estimator = "gae"
    with pytest.raises(ConfigError) as raised:
        require(config, RULES)
    assert raised.value.key == key


def test_ppo_takes_single_rollouts(config):
    """GAE does not compare the members of a group."""
    config.algorithm.adv_estimator = "gae"
    config.actor_rollout_ref.rollout.n = 1
    require(config, RULES)


@pytest.mark.parametrize(
    ("policy", "other", "says"),
    [
        ("drop", {"algorithm.filter_groups": {"enable": True, "metric": "reward"}}, "filter_groups.enable"),
        ("drop", {"algorithm.adv_estimator": "gae"}, "does not compare"),
        ("refill", {"algorithm.adv_estimator": "gae"}, "does not compare"),
    ],
)
def test_groups_without_an_advantage_are_treated_only_where_there_are_such(config, policy, other, says):
    OmegaConf.update(config, "swe.failure.zero_advantage", policy, force_add=True)
    require(config, RULES)
    for key, value in other.items():
        OmegaConf.update(config, key, value, force_add=True)
    with pytest.raises(ConfigError, match=says) as raised:
        require(config, RULES)
    assert raised.value.key == "swe.failure.zero_advantage"
