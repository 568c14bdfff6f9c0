"""A gateway with one session, and clients that speak to it by hand."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import httpx

from swe_plugin.gateway import Gateway
from swe_plugin.policies import ScriptedTokenServer, TokenLimits, TokenPolicy
from swe_plugin.scaffolds.base import Episode
from swe_plugin.tokens import audit_segments
from swe_plugin.tokens.renderers.bytes import ByteRenderer

RENDERER = ByteRenderer()
START = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "fix it"}]
BASH = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}


def token_policy(script, *, limits=None, **options):
    server = ScriptedTokenServer(RENDERER.encode, RENDERER.END, script)
    limits = limits or TokenLimits(max_model_len=4096)
    return TokenPolicy(RENDERER, server, limits, backoff_s=0.0, request_id="r", **options)


@asynccontextmanager
async def opened(policy, *, max_calls=30):
    """A client of a fresh gateway's only session, which is its attribute `session`; `episode` is its record."""
    gateway, episode = Gateway(), Episode()
    try:
        opening = gateway.open(policy, episode, max_calls=max_calls)
        async with opening as session, client(gateway, session) as http:
            http.session, http.episode, http.gateway = session, episode, gateway
            yield http
    finally:
        await gateway.close()


def client(gateway, session, key=None):
    headers = {"authorization": f"Bearer {key or session.key}"}
    return httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=20, trust_env=False)


async def ask(http, messages=START, **more):
    """The response of one request."""
    return await http.post("/chat/completions", json={"model": "policy", "messages": messages, **more})


async def talk(http, *observations, messages=START, **more):
    """A conversation as any agent has it: what came back goes out again. The messages, answers included."""
    history = list(messages)
    for text in (None, *observations):
        if text is not None:
            history.append({"role": "user", "content": text})
        response = await ask(http, history, **more)
        assert response.status_code == 200, response.text
        history.append(response.json()["choices"][0]["message"])
    return history


def error(response):
    """Status and code of a refusal, whose shape is checked."""
    body = response.json()["error"]
    assert set(body) == {"message", "type", "param", "code"}
    assert body["message"]
    return response.status_code, body["code"]


def events(text):
    """The chunks of a stream, which is closed as it should be."""
    *lines, last = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert last == "[DONE]"
    return [json.loads(line) for line in lines]


def proved(policy):
    report = audit_segments(policy.segments, policy.journal.records)
    assert report.ok, report.violations
    return report


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def another(http, policy):
    """A second session of the same gateway, with a client of its own."""
    opening = http.gateway.open(policy, Episode(), max_calls=3)
    async with opening as session, client(http.gateway, session) as second:
        second.session = session
        yield second
