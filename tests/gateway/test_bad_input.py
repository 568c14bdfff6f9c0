"""What a client does wrong: an error in OpenAI's shape, and a line in the rollout's record."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from swe_plugin.errors import ConfigError, PolicyError, PromptTooLong
from swe_plugin.gateway import app
from swe_plugin.gateway.request import read_request
from swe_plugin.policies import Answer, ScriptedPolicy, TokenLimits
from swe_plugin.types import StopReason

from .gateways import START, another, ask, error, opened, proved, talk, token_policy, until


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"n": 2}, "n: only 1, got 2"),
        ({"logit_bias": {"1": 5}}, "logit_bias: only {}"),
        ({"logprobs": True}, "logprobs: only false"),
        ({"stop": ["\n"]}, "stop: only []"),
        ({"response_format": {"type": "json_object"}}, "response_format: only"),
        ({"tool_choice": "required"}, 'tool_choice: only "auto"'),
        ({"functions": []}, "functions: it is not known here"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "only text can be read"),
    ],
)
async def test_what_would_change_the_answer_is_refused_by_name(parameters, says):
    async with opened(ScriptedPolicy(["never"])) as http:
        response = await ask(http, **parameters)
        assert error(response) == (400, "unsupported_parameter")
        assert says in response.json()["error"]["message"]
        assert any(says in note for note in http.episode.notes)


async def test_parameters_of_sampling_are_the_runs_and_said_once():
    async with opened(token_policy(["one", "two"])) as http:
        await talk(http, "a", temperature=0.0, max_tokens=5, n=1, parallel_tool_calls=True)
        assert http.episode.notes == ["not followed, the run says how answers are sampled: max_tokens, temperature"]


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        (None, "messages"),
        ([], "messages"),
        ("fix it", "messages"),
        ([{"role": "function", "content": "x"}], "messages[0]"),
        ([{"content": "x"}], "messages[0]"),
        (["x"], "messages[0]"),
        ([{"role": "user", "content": 7}], "messages[0].content"),
        ([*START, {"role": "assistant", "content": "done"}], "messages"),
        ([{"role": "assistant", "tool_calls": [{"function": {"name": "x"}, "id": 3}, 7]}], "messages[0].tool_calls[1]"),
        ([*START, {"role": "assistant", "tool_calls": {}}, START[1]], None),
        ([*START, {"role": "assistant", "tool_calls": 3}], "messages[2]"),
        ([*START, {"role": "tool", "content": "x", "tool_call_id": "1"}], "messages[2]"),
    ],
)  # fmt: skip
async def test_malformed_messages_are_refused_with_their_place(messages, param):
    async with opened(ScriptedPolicy(["fine"])) as http:
        response = await ask(http, messages)
        if param is None:
            assert response.status_code == 200
        else:
            assert error(response) == (400, "invalid_request")
            assert response.json()["error"]["param"] == param


HUGE = {"type": "function", "function": {"name": "x", "description": "x" * 300_000}}


@pytest.mark.parametrize(
    "tools", [{}, [{}], [{"type": "function"}], [{"type": "function", "function": {"name": 3}}], [HUGE]]
)
async def test_malformed_tools_are_refused(tools):
    async with opened(ScriptedPolicy(["fine"])) as http:
        response = await ask(http, tools=tools)
        assert (response.status_code == 200) if tools == {} else (error(response) == (400, "invalid_request"))


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000])
async def test_malformed_json_is_refused(body):
    async with opened(ScriptedPolicy(["never"])) as http:
        assert error(await http.post("/chat/completions", content=body)) == (400, "invalid_request")
        assert len(http.episode.notes) == 1


def test_half_a_surrogate_in_a_tool_is_replaced_as_in_any_text():
    tool = {"type": "function", "function": {"name": "x", "description": "\udcff"}}
    body = json.dumps({"model": "policy", "messages": START, "tools": [tool]})
    assert read_request(body.encode(), "policy").tools[0]["function"]["description"] == "\ufffd"


async def test_what_is_quoted_of_a_mistake_is_cut():
    async with opened(ScriptedPolicy(["never"])) as http:
        assert error(await ask(http, model="x" * 5_000_000)) == (404, "model_not_found")
        assert error(await ask(http, **{"y" * 5_000_000: 1})) == (400, "unsupported_parameter")
        assert max(map(len, http.episode.notes)) < 1100


async def test_another_model_is_not_here():
    async with opened(ScriptedPolicy(["never"])) as http:
        assert error(await ask(http, model="gpt-5")) == (404, "model_not_found")
        assert "'gpt-5'" in http.episode.notes[0]


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/chat/completions", 405), ("POST", "/embeddings", 404)]
)
async def test_what_is_not_served_says_so_in_the_same_shape(method, path, status):
    async with opened(ScriptedPolicy([])) as http:
        assert error(await http.request(method, path)) == (status, "not_served")
        assert f"{method} /v1{path}" in http.episode.notes[0]


async def test_an_oversized_body_is_refused_before_it_is_read_whole():
    async with opened(ScriptedPolicy(["never"])) as http:
        response = await ask(http, [{"role": "user", "content": "x" * (app.MAX_BODY_BYTES + 1)}])
        assert error(response) == (413, "request_too_large")


async def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(app, "BODY_TIMEOUT_S", 0.05)
    async with opened(ScriptedPolicy(["never"])) as http:
        reader, writer = await asyncio.open_connection("127.0.0.1", http.gateway._port)
        writer.write(
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {http.session.key}\r\n"
            "content-length: 10\r\n\r\n{".encode()
        )
        assert b" 408 " in await reader.readline()
        writer.close()


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}, {"authorization": "Basic x"}])
async def test_without_the_key_nothing_is_answered(headers):
    async with opened(ScriptedPolicy(["never"])) as http:
        http.headers.pop("authorization")
        http.headers.update(headers)
        for response in (await ask(http), await http.get("/models")):
            assert error(response) == (401, "invalid_api_key")


async def test_two_rollouts_have_two_keys_and_two_policies():
    async with opened(ScriptedPolicy(["of one"])) as http, another(http, ScriptedPolicy(["of two"])) as second:
        for client, text in ((second, "of two"), (http, "of one")):
            assert (await ask(client)).json()["choices"][0]["message"]["content"] == text
        assert http.session.key != second.session.key


async def test_a_call_after_the_end_is_refused_and_stands_in_the_record(caplog):
    policy = ScriptedPolicy(["late"])
    async with opened(ScriptedPolicy([])) as http:
        async with another(http, policy) as ended:
            key = ended.session.key
        http.headers["authorization"] = f"Bearer {key}"
        with caplog.at_level(logging.WARNING):
            assert error(await ask(http)) == (401, "invalid_api_key")
        assert "401" in ended.session._episode.notes[0]
        assert "after its rollout ended" in caplog.text
    assert policy.calls == []


async def test_the_end_of_a_rollout_gives_up_what_is_on_its_way():
    policy = token_policy([Answer("late", delay_s=30)])
    async with opened(policy) as http:
        waiting = asyncio.ensure_future(ask(http))
        await until(lambda: http.session._flights)
        await http.session.close()
        assert error(await waiting) == (401, "invalid_api_key")
    assert policy.segments == []


async def test_a_full_context_is_openais_error_and_the_stop_reason_unless_the_agent_goes_on():
    policy = token_policy(["x" * 40, "short"], limits=TokenLimits(max_model_len=120))
    async with opened(policy) as http:
        history = await talk(http)
        response = await ask(http, [*history, {"role": "user", "content": "y" * 100}])
        assert error(response) == (400, "context_length_exceeded")
        assert http.session.stop_reason(StopReason.STOPPED) is StopReason.CONTEXT_FULL
        assert any("context_length_exceeded" in note for note in http.episode.notes)
        assert (await ask(http, [{"role": "user", "content": "compacted"}])).status_code == 200
        assert http.session.stop_reason(StopReason.STOPPED) is StopReason.STOPPED
    proved(policy)


async def test_a_template_that_refuses_the_conversation_is_the_agents_mistake():
    policy = ScriptedPolicy([ConfigError("swe.policy.chat_template", "x", "it refuses messages of roles tool")])
    async with opened(policy) as http:
        assert error(await ask(http)) == (400, "invalid_request")
        assert http.session.stop_reason(StopReason.STOPPED) is StopReason.STOPPED


@pytest.mark.parametrize(
    "failure", [PolicyError("the server is gone"), PromptTooLong("500 ids"), RuntimeError("a bug")], ids=repr
)
async def test_a_policy_that_fails_ends_the_rollout_with_its_own_error(failure):
    async with opened(ScriptedPolicy([failure])) as http:

        async def agent():
            response = await ask(http)
            assert error(response) == (500, "policy_failed")
            assert response.headers["x-should-retry"] == "false"
            assert error(await ask(http)) == (500, "policy_failed")
            await asyncio.sleep(60)

        with pytest.raises(type(failure), match=str(failure)):
            await http.session.run(agent())


async def test_after_the_last_answer_the_agent_is_stopped():
    async with opened(ScriptedPolicy(["one", "two", "never"]), max_calls=2) as http:

        async def agent():
            await talk(http, "a")
            assert error(await ask(http)) == (403, "turn_limit_reached")
            await asyncio.sleep(60)

        assert await http.session.run(agent()) is None
        assert http.session.stop_reason(StopReason.SUBMITTED) is StopReason.MAX_TURNS


async def test_what_an_agent_returns_or_raises_comes_through():
    async with opened(ScriptedPolicy([])) as http:

        async def returns():
            return 7

        async def raises():
            raise KeyError("a bug of the agent")

        assert await http.session.run(returns()) == 7
        with pytest.raises(KeyError):
            await http.session.run(raises())


async def test_too_many_requests_at_once_are_told_to_come_back():
    policy = token_policy(lambda _: Answer("ok", delay_s=0.2))
    async with opened(policy, max_calls=3) as http:
        asked = [[*START, {"role": "user", "content": str(i)}] for i in range(5)]
        answers = await asyncio.gather(*(ask(http, messages) for messages in asked))
        refused = [answer for answer in answers if answer.status_code != 200]
        assert [error(answer) for answer in refused] == [(429, "rate_limit_exceeded")] * 2
        assert {answer.headers["x-should-retry"] for answer in refused} == {"true"}
        assert http.session.calls == 3
    proved(policy)


async def test_the_record_does_not_grow_with_the_number_of_mistakes():
    async with opened(ScriptedPolicy([])) as http:
        for i in range(150):
            http.session.note(f"mistake {i}")
        assert len(http.episode.notes) == 100


@pytest.mark.parametrize("stream", [False, True])
async def test_a_lone_surrogate_in_an_answer_does_not_break_the_response(stream):
    async with opened(ScriptedPolicy(["\ud800"])) as http:
        response = await ask(http, stream=stream)
        assert response.status_code == 200
        assert b"\\ud800" in response.content


async def test_a_bug_of_the_gateway_is_a_failure_of_the_rollout_and_no_answer(monkeypatch):
    monkeypatch.setattr(app, "read_request", lambda *_: 1 / 0)
    async with opened(ScriptedPolicy(["never"])) as http:

        async def agent():
            assert error(await ask(http)) == (500, "internal_error")
            await asyncio.sleep(60)

        with pytest.raises(ZeroDivisionError):
            await http.session.run(agent())
