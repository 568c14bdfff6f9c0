"""Conversations of which only the text is known."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_plugin.policies import ScriptedTokenServer, TokenLimits, TokenPolicy
from swe_plugin.tokens.offline import drifts, encode_conversation
from swe_plugin.tokens.renderers.chat_template import ChatTemplateRenderer
from swe_plugin.types import Message, ToolCall

from . import chatml

TOKENIZER = chatml.tokenizer(chatml.TOOLS)
RENDERER = ChatTemplateRenderer(TOKENIZER, tools=True)
BASH = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=4))
def test_the_row_is_what_a_policy_would_have_recorded(turns):
    server = ScriptedTokenServer(
        lambda t: RENDERER._encoder.encode(RENDERER._encoder.hide(t, trusted=True)).ids,
        TOKENIZER.eos_token_id,
        [said for said, _ in turns],
    )
    policy = TokenPolicy(RENDERER, server, TokenLimits(1 << 16))
    messages = [Message("user", "go")]

    async def run():
        for said, observed in turns:
            await policy.respond(messages)
            messages.extend([Message("assistant", said), Message("user", observed)])
            policy._seen[-1] = messages[-2]  # the text that was scripted, whatever its ids decode to

    asyncio.run(run())
    row = encode_conversation(RENDERER, messages)
    (segment,) = policy.segments
    assert (row.ids, row.mask) == (segment.ids.tolist(), segment.mask.tolist())


def test_calls_are_written_as_the_template_writes_them():
    calls = (ToolCall("bash", {"command": "ls"}, "call00000"), ToolCall("bash", {"command": "pwd"}, "call00001"))
    results = [Message("tool", "a.py", tool_call_id="call00000"), Message("tool", "/x", tool_call_id="call00001")]
    messages = [Message("user", "go"), Message("assistant", "look", calls), *results, Message("assistant", "done")]
    row = encode_conversation(RENDERER, messages, tools=[BASH])
    trained = TOKENIZER.decode([i for i, m in zip(row.ids, row.mask, strict=True) if m])
    assert trained == (
        'look\n<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>'
        '\n<tool_call>\n{"name": "bash", "arguments": {"command": "pwd"}}\n</tool_call><|im_end|>done<|im_end|>'
    )
    assert row.ids[: row.turns[1][0]] == RENDERER.initial(messages[:-1], tools=[BASH])
    assert drifts(RENDERER, messages, row, tools=[BASH]) == []


def test_demonstrations_are_not_trained():
    messages = [Message("user", "a"), Message("assistant", "one"), Message("user", "b"), Message("assistant", "two")]
    row = encode_conversation(RENDERER, messages, untrained={1})
    assert TOKENIZER.decode([i for i, m in zip(row.ids, row.mask, strict=True) if m]) == "two<|im_end|>"


def test_every_place_where_a_template_rewrites_the_past_is_reported_once():
    renderer = ChatTemplateRenderer(TOKENIZER, chatml.STRIPS_THOUGHTS)
    thought = Message("assistant", "<think>hm</think>ls")
    messages = [
        Message("user", "a"),
        thought,
        Message("user", "b"),
        thought,
        Message("user", "c"),
        Message("assistant", "end"),
    ]
    row = encode_conversation(renderer, messages)
    (first,) = drifts(renderer, messages, row)
    assert (first.messages, first.stream[:7], first.template[:2]) == (3, "<think>", "ls")
    assert row.ids[first.position] == TOKENIZER.convert_tokens_to_ids("<think>")


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([Message("user", "a")], "no answer"),
        ([Message("assistant", "a")], "no answer that follows"),
        ([Message("user", "a"), Message("assistant", "a"), Message("assistant", "b")], "messages 1 and 2"),
    ],
)
def test_what_is_no_conversation_is_refused(messages, reason):
    with pytest.raises(ValueError, match=reason):
        encode_conversation(RENDERER, messages)
