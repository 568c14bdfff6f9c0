"""`key=value` words become a checked configuration, or one line that names key, value and fix."""

import pytest

from swe_plugin.cli.overrides import config_from_words
from swe_plugin.errors import ConfigError


def test_values_are_yaml_and_the_last_word_wins():
    config = config_from_words(
        ["swe.scaffold.max_turns=3", "+swe.scaffold.max_turns=4", "swe.environment.env={A: b}", "swe.plugins=[x]"]
    )
    assert (config.scaffold.max_turns, config.environment.env, config.plugins) == (4, {"A": "b"}, ["x"])


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("swe.scaffold.max_turn=3", "swe.scaffold.max_turn=3: unknown key; did you mean swe.scaffold.max_turns?"),
        ("swe.scaffold.max_turns=many", "swe.scaffold.max_turns='many': "),
        ("swe.scaffold.max_turns=0", "swe.scaffold.max_turns=0: must be at least 1"),
        ("swe.environment.env={A: [", "swe.environment.env='{A: [': no valid value"),
        ("swe.scaffold.max_turns=${nowhere}", "nowhere"),
        ("trainer.nnodes=2", "trainer.nnodes='2': only swe.* keys mean something here"),
        ("max_turns", "word='max_turns': must be swe.key=value"),
    ],
)
def test_a_wrong_word_is_one_clear_line(word, says):
    with pytest.raises(ConfigError) as caught:
        config_from_words([word])
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
