"""The protocol as clients see it: answers, tool calls, streams, usage, models."""

from __future__ import annotations

import json

from swe_plugin.policies import Answer, ScriptedPolicy
from swe_plugin.types import Message, Reply, ToolCall

from .gateways import BASH, START, ask, events, opened, proved, talk, token_policy

CALL = '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>'


async def test_an_answer_comes_in_openais_shape_with_what_it_cost():
    policy = token_policy(["done"])
    async with opened(policy) as http:
        body = (await ask(http)).json()
    assert body["choices"] == [
        {"index": 0, "message": {"role": "assistant", "content": "done"}, "logprobs": None, "finish_reason": "stop"}
    ]
    prompt = policy.segments[0].prompt_length
    assert body["usage"] == {"prompt_tokens": prompt, "completion_tokens": 5, "total_tokens": prompt + 5}
    assert (body["object"], body["model"]) == ("chat.completion", "policy")


async def test_tool_calls_come_back_and_go_out_again_in_one_segment():
    policy = token_policy([CALL, "done"])
    async with opened(policy) as http:
        message = (await ask(http, tools=[BASH])).json()["choices"][0]
        assert message["finish_reason"] == "tool_calls"
        (call,) = message["message"]["tool_calls"]
        assert (call["type"], call["function"]["name"]) == ("function", "bash")
        assert json.loads(call["function"]["arguments"]) == {"command": "ls"}
        result = {"role": "tool", "content": "a.py", "tool_call_id": call["id"]}
        await ask(http, [*START, message["message"], result], tools=[BASH])
    assert len(policy.segments) == 1
    proved(policy)


async def test_a_stream_says_the_same_as_an_answer():
    async with opened(token_policy([CALL])) as http:
        response = await ask(http, tools=[BASH], stream=True, stream_options={"include_usage": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    first, called, last, usage = events(response.text)
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert called["choices"][0]["delta"]["tool_calls"][0]["function"]["name"] == "bash"
    assert (last["choices"][0]["delta"], last["choices"][0]["finish_reason"]) == ({}, "tool_calls")
    assert (usage["choices"], usage["usage"]["completion_tokens"]) == ([], len(CALL) + 1)
    assert {chunk["object"] for chunk in (first, called, last, usage)} == {"chat.completion.chunk"}


async def test_an_answer_that_was_cut_says_length_and_has_no_calls():  # NeMo-RL#3851
    async with opened(token_policy([Answer(CALL, cut=True)])) as http:
        choice = (await ask(http, tools=[BASH])).json()["choices"][0]
    assert choice["finish_reason"] == "length"
    assert "tool_calls" not in choice["message"]


async def test_an_empty_answer_is_an_answer():
    async with opened(token_policy([Answer(empty=True)])) as http:
        choice = (await ask(http)).json()["choices"][0]
    assert choice["message"]["content"] == ""


async def test_calls_that_cannot_be_read_are_a_format_error_of_the_record():
    async with opened(token_policy(["<tool_call>{</tool_call>"])) as http:
        assert "tool_calls" not in (await ask(http, tools=[BASH])).json()["choices"][0]["message"]
        assert http.episode.n_format_errors == 1
        assert http.episode.turns[-1].format_error


async def test_parts_of_text_and_the_developer_role_are_read():
    policy = ScriptedPolicy(["done"])
    async with opened(policy) as http:
        parts = [{"type": "text", "text": "fix "}, {"type": "text", "text": "it"}]
        await ask(http, [{"role": "developer", "content": "be brief"}, {"role": "user", "content": parts}])
    assert policy.calls == [[Message("system", "be brief"), Message("user", "fix it")]]


async def test_there_is_one_model():
    async with opened(ScriptedPolicy([])) as http:
        assert [model["id"] for model in (await http.get("/models")).json()["data"]] == ["policy"]
        assert (await http.get("/models/policy")).json()["object"] == "model"
        assert (await http.get("/models/gpt-5")).status_code == 404


async def test_the_record_has_the_messages_in_order_and_a_turn_per_answer():
    async with opened(token_policy(["ls", "done"])) as http:
        await talk(http, "a.py")
        roles = [(message.role, message.content) for message in http.episode.messages]
        assert roles == [
            ("system", "be brief"),
            ("user", "fix it"),
            ("assistant", "ls"),
            ("user", "a.py"),
            ("assistant", "done"),
        ]
        assert (len(http.episode.turns), http.session.calls) == (2, 2)
        assert http.episode.generate_s > 0


async def test_a_policy_without_call_ids_gets_some():
    reply = Reply(Message("assistant", "", (ToolCall("bash", {"command": "ls"}), ToolCall("submit"))))
    async with opened(ScriptedPolicy([reply, "done"])) as http:
        message = (await ask(http, tools=[BASH])).json()["choices"][0]["message"]
        assert len({call["id"] for call in message["tool_calls"]}) == 2
