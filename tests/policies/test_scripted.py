"""Stand-ins for a model."""

from __future__ import annotations

import pytest

from swe_plugin.errors import PolicyError
from swe_plugin.policies import Answer, Policy, ScriptedPolicy, ScriptedTokenServer, TokenLimits
from swe_plugin.tokens.renderers.bytes import ByteRenderer
from swe_plugin.types import Message, Reply, ToolCall

ASK = [Message("user", "go")]
ENCODE, END = ByteRenderer().encode, ByteRenderer.END


async def test_a_policy_plays_texts_messages_replies_and_errors_in_order():
    call = Message("assistant", "", [ToolCall("bash")])
    policy = ScriptedPolicy(["a", call, Reply(Message("assistant", "cut"), truncated=True), PolicyError("down")])
    assert isinstance(policy, Policy)
    assert await policy.respond(ASK) == Reply(Message("assistant", "a"))
    assert (await policy.respond(ASK)).message is call
    assert (await policy.respond(ASK)).truncated
    with pytest.raises(PolicyError, match="down"):
        await policy.respond(ASK)
    with pytest.raises(PolicyError, match="no more answers"):
        await policy.respond(ASK)
    assert policy.calls == [ASK] * 5
    assert list(policy.segments) == []


async def test_a_policy_can_be_a_function_of_the_history():
    policy = ScriptedPolicy(lambda messages: f"{len(messages)} messages")
    assert (await policy.respond(ASK * 3)).message.content == "3 messages"


async def test_a_server_ends_answers_and_cuts_them_at_the_limit():
    server = ScriptedTokenServer(
        ENCODE, END, ["abc", "abc", Answer("abc", cut=True), Answer(ids=[1, 2]), Answer(empty=True)]
    )
    got = [list((await server.generate("r", [9], max_tokens=n)).token_ids) for n in (9, 2, 9, 9, 9)]
    assert got == [[97, 98, 99, END], [97, 98], [97, 98, 99], [1, 2], []]
    assert [c.max_tokens for c in server.calls] == [9, 2, 9, 9, 9]


async def test_a_server_aborts_fails_and_says_its_versions():
    script = [Answer("a", aborted=True, versions=(1, 2)), Answer(error=ValueError("bug"))]
    server = ScriptedTokenServer(ENCODE, END, script)
    completion = await server.generate("r", [9], max_tokens=9)
    assert (completion.aborted, completion.min_version, completion.max_version) == (True, 1, 2)
    assert len(completion.log_probs) == len(completion.token_ids)
    assert all(p <= 0 for p in completion.log_probs)
    with pytest.raises(ValueError, match="bug"):
        await server.generate("r", [9], max_tokens=9)
    with pytest.raises(PolicyError):
        await server.generate("r", [9], max_tokens=9)


async def test_a_server_can_answer_from_the_prompt():
    server = ScriptedTokenServer(ENCODE, END, lambda prompt: "x" * len(prompt))
    assert len((await server.generate("r", [1, 2, 3], max_tokens=9)).token_ids) == 4


@pytest.mark.parametrize(
    ("limits", "prompt", "context", "room"),
    [
        (TokenLimits(100), 10, 10, 90),
        (TokenLimits(100), 10, 100, 0),
        (TokenLimits(100), 10, 120, -20),
        (TokenLimits(100, max_prompt_tokens=9), 10, 10, 0),
        (TokenLimits(100, max_prompt_tokens=10), 10, 10, 90),
        (TokenLimits(100, max_response_tokens=30), 10, 25, 15),
        (TokenLimits(100, max_response_tokens=30, max_turn_tokens=5), 10, 25, 5),
        (TokenLimits(100, max_response_tokens=30, max_turn_tokens=5), 10, 40, 0),
    ],
)
def test_room_for_an_answer(limits, prompt, context, room):
    assert limits.room(prompt, context) == room
