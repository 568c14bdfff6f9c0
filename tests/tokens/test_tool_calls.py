"""Tool calls written by the model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_plugin.tokens import parse_tool_calls


def block(body):
    return f"<tool_call>\n{body}\n</tool_call>"


def test_several_calls_come_in_order_with_the_text_beside_them():
    text = "first\n" + block('{"name": "a"}')
    text += block('{"name": "b", "arguments": {"x": 1}}')
    parsed = parse_tool_calls(text, id_prefix="call003")
    assert [(c.name, c.arguments, c.call_id) for c in parsed.calls] == [
        ("a", {}, "call00300"),
        ("b", {"x": 1}, "call00301"),
    ]
    assert (parsed.content, parsed.errors) == ("first", [])


def test_arguments_may_be_a_json_string():
    parsed = parse_tool_calls(block('{"name": "a", "arguments": "{\\"x\\": 1}"}'))
    assert parsed.calls[0].arguments == {"x": 1}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (block("{not json"), "not JSON"),
        (block('["a"]'), "expected"),
        (block('{"arguments": {}}'), "expected"),
        (block('{"name": ""}'), "expected"),
        (block('{"name": "a", "arguments": [1]}'), "must be a JSON object"),
        (block('{"name": "a", "arguments": "nope"}'), "not JSON"),
        ('<tool_call>\n{"name": "a", "arguments": {}}', "not closed"),
        (block('{"name": "a"}') + "<tool_call>", "not closed"),
        (block("[" * 100_000), "not JSON"),
    ],
)
def test_one_malformed_call_stops_them_all(text, reason):
    parsed = parse_tool_calls(text)
    assert parsed.calls == []
    assert reason in parsed.errors[0]
    assert parsed.content == text


@given(st.text())
def test_text_without_calls_is_left_alone(text):
    parsed = parse_tool_calls(text)
    if "<tool_call>" not in text:
        assert (parsed.content, parsed.calls, parsed.errors) == (text, [], [])
