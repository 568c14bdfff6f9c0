"""What was thought is not what is said."""

from __future__ import annotations

import pytest

from swe_plugin.tokens.thoughts import said

FINAL = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>do it"


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("do it", "do it"),
        ("<think>hm</think>do it", "do it"),
        ("hm</think>no</think>do it", "do it"),
        (FINAL, "do it"),
        ("<|channel|>analysis<|message|>do it", ""),
        ("see <|channel|>", "see <|channel|>"),
    ],
)
def test_what_follows_the_last_thought(text, rest):
    assert said(text) == rest
