"""A hosted model answers like any policy: through litellm, against a server on a real port."""

import asyncio
import sys

import pytest

from swe_plugin.config import PolicyConfig
from swe_plugin.errors import ConfigError, ContextOverflow, PluginError, PolicyError
from swe_plugin.policies.litellm_policy import LitellmPolicy
from swe_plugin.scaffolds.parsers import TOOLS
from swe_plugin.types import Message, ToolCall

from .openai_server import openai_server

HISTORY = [Message("system", "be brief"), Message("user", "fix it")]


@pytest.fixture(autouse=True)
def key(monkeypatch):
    for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-test")


def policy(server=None, usage=None, *, model="openai/some-model", options=(), **settings):
    chosen = {"api_base": server.base} if server else {}
    return LitellmPolicy(model, PolicyConfig(litellm=chosen | dict(options), **settings), usage, backoff_s=0.01)


async def test_the_conversation_goes_out_and_the_answer_comes_back():
    with openai_server({"content": "done"}) as server:
        reply = await policy(server, options={"temperature": 0.5}, max_turn_tokens=64).respond(HISTORY)
    assert (reply.message, reply.truncated, reply.n_tokens) == (Message("assistant", "done"), False, 7)
    ((path, authorization, body),) = server.requests
    assert (path, authorization) == ("/v1/chat/completions", "Bearer sk-of-the-test")
    assert body["messages"] == [{"role": "system", "content": "be brief"}, {"role": "user", "content": "fix it"}]
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("some-model", 0.5, 64)
    assert "tools" not in body


async def test_tool_calls_come_back_and_go_out_again_as_they_were():
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    with openai_server({"content": None, "tool_calls": [call]}, {"content": "done"}) as server:
        agent = policy(server)
        reply = await agent.respond(HISTORY, tools=TOOLS)
        await agent.respond([*HISTORY, reply.message, Message("tool", "a.py", tool_call_id="c1")], tools=TOOLS)
    assert reply.message == Message("assistant", "", (ToolCall("bash", {"command": "ls"}, "c1"),))
    assert [tool["function"]["name"] for tool in server.requests[0][2]["tools"]] == ["bash", "submit"]
    assert server.requests[1][2]["messages"][2]["tool_calls"] == [call]
    assert server.requests[1][2]["messages"][3] == {"role": "tool", "content": "a.py", "tool_call_id": "c1"}


@pytest.mark.parametrize("arguments", ["{", "[]", ""])
async def test_arguments_that_are_no_object_are_the_agents_mistake(arguments):
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": arguments}}
    with openai_server({"content": "", "tool_calls": [call]}) as server:
        reply = await policy(server).respond(HISTORY, tools=TOOLS)
    assert reply.message.tool_calls == (ToolCall("bash", {}, "c1"),)


async def test_an_answer_that_was_cut_says_so():
    with openai_server({"content": "```bash\nls"}, finish="length") as server:
        assert (await policy(server).respond(HISTORY)).truncated


async def test_use_is_summed_up_over_calls_and_attempts():
    used = {}
    with openai_server({"content": "done"}) as server:
        first = policy(server, used, model="openai/gpt-4o-mini")
        await first.respond(HISTORY)
        await first.respond(HISTORY)
        await policy(server, used, model="openai/gpt-4o-mini").respond(HISTORY)
    assert {name: used[name] for name in ("calls", "prompt_tokens", "completion_tokens")} == {
        "calls": 3,
        "prompt_tokens": 90,
        "completion_tokens": 21,
    }
    assert 0 < used["cost_usd"] < 0.01


async def test_a_rollout_ends_when_it_has_cost_what_it_may():
    with openai_server({"content": "done"}) as server:
        agent = policy(server, model="openai/gpt-4o-mini", max_cost_usd=1e-6)
        await agent.respond(HISTORY)
        with pytest.raises(ContextOverflow, match="max_cost_usd=1e-06 is spent"):
            await agent.respond(HISTORY)
    assert len(server.requests) == 1


async def test_calls_begin_no_faster_than_allowed_over_all_rollouts():
    with openai_server({"content": "done"}) as server:
        agents = [policy(server, calls_per_minute=600) for _ in range(6)]
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*(agent.respond(HISTORY) for agent in agents))
        assert asyncio.get_running_loop().time() - began >= 0.5


async def test_the_same_question_is_asked_once_and_its_key_is_in_no_file(tmp_path):
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    with openai_server({"content": "so", "tool_calls": [call]}, {"content": "other"}) as server:
        first, second = (policy(server, cache_dir=str(tmp_path), options={"temperature": 0}) for _ in range(2))
        reply = await first.respond(HISTORY, tools=TOOLS)
        assert await second.respond(HISTORY, tools=TOOLS) == reply
        assert (await second.respond(HISTORY)).message.content == "other"
        seeded = policy(server, cache_dir=str(tmp_path), options={"seed": 3})
        assert (await seeded.respond(HISTORY, tools=TOOLS)).message.content == "other"
    assert len(server.requests) == 3
    assert second.usage["cached_calls"] == 1
    assert "sk-of-the-test" not in "".join(path.read_text() for path in tmp_path.iterdir())


def test_a_cache_without_temperature_0_or_a_seed_would_make_all_samples_one():
    with pytest.raises(ConfigError, match=r"swe.policy.cache_dir='x': needs swe.policy.litellm.temperature=0"):
        policy(cache_dir="x")


async def test_a_failing_call_is_tried_as_often_as_configured():
    with openai_server(
        (500, {"message": "overloaded"}), (500, {"message": "overloaded"}), {"content": "done"}
    ) as server:
        assert (await policy(server, max_attempts=3).respond(HISTORY)).message.content == "done"
    assert len(server.requests) == 3
    with openai_server((429, {"message": "overloaded"})) as server, pytest.raises(PolicyError, match="overloaded"):
        await policy(server, max_attempts=2).respond(HISTORY)
    assert len(server.requests) == 2


async def test_a_server_that_hangs_is_a_failure():
    with openai_server({"content": "late"}, delay_s=1.5) as server, pytest.raises(PolicyError, match="Timeout"):
        await policy(server, max_attempts=1, call_timeout_s=0.2).respond(HISTORY)


async def test_a_full_window_ends_the_episode_and_is_no_failure():
    full = {"message": "This model's maximum context length is 10 tokens", "code": "context_length_exceeded"}
    with openai_server((400, full)) as server, pytest.raises(ContextOverflow):
        await policy(server, max_attempts=1).respond(HISTORY)


async def test_a_refused_key_is_said_in_the_providers_words():
    refused = pytest.raises(PolicyError, match=r"AuthenticationError.*no such key")
    with openai_server((401, {"message": "no such key"})) as server, refused:
        await policy(server, max_attempts=3).respond(HISTORY)
    assert len(server.requests) == 1


async def test_a_server_of_ones_own_needs_no_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    with openai_server({"content": "done"}) as server:
        await policy(server).respond(HISTORY)
        monkeypatch.setenv("OPENAI_API_BASE", server.base)
        await policy().respond(HISTORY)
    assert [authorization for _, authorization, _ in server.requests] == ["Bearer none"] * 2


@pytest.mark.parametrize(
    ("model", "options", "says"),
    [
        ("openai/some-model", {}, "set OPENAI_API_KEY"),
        ("some-model", {}, "write litellm:<provider>/<model>"),
        ("openai/some-model", {"api_key": "sk-typed"}, "swe.policy.litellm.api_key='***': secrets go into"),
        ("openai/some-model", {"stream": True}, "swe.policy.litellm.stream=True: is not yours to set"),
    ],
)
def test_what_cannot_work_is_said_at_once(monkeypatch, model, options, says):
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ConfigError) as caught:
        policy(model=model, options=options)
    assert says in str(caught.value)
    assert "sk-typed" not in str(caught.value)


def test_without_litellm_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "litellm", None)
    with pytest.raises(PluginError, match=r"pip install 'swe-plugin\[litellm\]'"):
        policy()
