"""The `swe:` section: typed, with defaults, and one clear line for every mistake."""

import dataclasses

import pytest
from omegaconf import OmegaConf

from swe_plugin.config import SweConfig, load_config
from swe_plugin.errors import ConfigError


def test_an_empty_section_is_the_defaults():
    assert load_config(None) == SweConfig()


def test_given_keys_win_and_the_rest_keeps_its_default():
    config = load_config({"scaffold": {"max_turns": 3}})
    assert config == dataclasses.replace(SweConfig(), scaffold=dataclasses.replace(SweConfig().scaffold, max_turns=3))


def test_an_omegaconf_section_with_interpolations_is_resolved():
    whole = OmegaConf.create({"limit": 7, "swe": {"scaffold": {"max_turns": "${limit}"}}})
    assert load_config(whole.swe).scaffold.max_turns == 7


@pytest.mark.parametrize(
    ("section", "key", "says"),
    [
        ({"scafold": {"max_turns": 1}}, "swe.scafold", "did you mean swe.scaffold?"),
        ({"scaffold": {"max_tuns": 1}}, "swe.scaffold.max_tuns", "did you mean swe.scaffold.max_turns?"),
        ({"scaffold": {"max_turns": "many"}}, "swe.scaffold.max_turns", "could not be converted to Integer"),
        ({"scaffold": {"max_turns": 0}}, "swe.scaffold.max_turns", "at least 1"),
        ({"scaffold": {"action": "json"}}, "swe.scaffold.action", "fenced, tools"),
        ({"scaffold": {"command_timeout_s": 9, "wall_clock_s": 5}}, "swe.scaffold.command_timeout_s", "wall_clock_s"),
        ({"environment": {"network": "host"}}, "swe.environment.network", "none, full"),
        ({"slots": {"grading": 0}}, "swe.slots.grading", "at least 1"),
        ({"failure": {"rollout_timeout_s": 60}}, "swe.scaffold.wall_clock_s", "rollout_timeout_s=60"),
        ({"failure": {"zero_advantage": "mask"}}, "swe.failure.zero_advantage", "keep, drop, refill"),
        ({"overlap": "yes"}, "swe.overlap", "off, prewarm, async"),
    ],
)
def test_a_mistake_names_key_value_and_fix(section, key, says):
    with pytest.raises(ConfigError) as caught:
        load_config(section)
    assert caught.value.key == key
    assert says in str(caught.value)
