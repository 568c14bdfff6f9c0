"""The part of `swe-plugin doctor` that needs verl: what ended the import is said, not that it ended."""

import pytest

from swe_plugin.verl_adapter.command_line import refuse_mistakes
from swe_plugin.verl_adapter.doctor import refusal


def test_a_refused_word_is_a_finding_with_key_value_and_fix():
    with pytest.raises(SystemExit) as caught:
        refuse_mistakes(["+plugin=swe", "swe.scaffold.nam=x"])
    found = refusal(caught.value)
    assert (found.name, found.ok) == ("recipe", False)
    assert found.line == "swe.scaffold.nam='x': unknown key; did you mean swe.scaffold.name?"


def test_another_end_keeps_its_words():
    found = refusal(SystemExit("swe-plugin cannot start: ImportError: no module"))
    assert (found.name, found.line) == ("plugin in verl", "swe-plugin cannot start: ImportError: no module")
