"""From inside an environment without network there is a way to the gateway, for its own rollout and nobody else."""

from __future__ import annotations

import asyncio
import json

import pytest
from grading.local import LocalEnvironment, local

from swe_plugin.config import EnvironmentConfig
from swe_plugin.environments import Environment, spec_for
from swe_plugin.environments.dummy import DummyEnvironment
from swe_plugin.environments.sandbox import SandboxEnvironment
from swe_plugin.errors import EnvironmentUnavailable, ScaffoldError
from swe_plugin.policies import Answer, ScriptedPolicy
from swe_plugin.types import Image

from .gateways import START, another, opened, proved, token_policy, until

CLIENT = """
import sys, urllib.request
url, key, body, *out = sys.argv[1:]
headers = {"authorization": "Bearer " + key, "x-forwarded-for": "127.0.0.1", "x-forwarded-proto": "https"}
data = open(body[1:], "rb").read() if body[0] == "@" else body.encode()
request = urllib.request.Request(url + "/chat/completions", data, headers)
try:
    answer = urllib.request.urlopen(request, timeout=60)
except urllib.error.HTTPError as error:
    answer = error
text = answer.read()
if out:
    open(out[0], "wb").write(text)
print(answer.status, out[0] if out else text.decode())
"""


def sandbox(name="a", backend=SandboxEnvironment):
    return backend(spec_for(Image(files={"a.py": ""}), EnvironmentConfig(), label=name))


@pytest.fixture(params=["local", "sandbox"])
async def environment(request):
    async with local({"a.py": ""}) if request.param == "local" else sandbox() as started:
        yield started


def body(messages):
    return {"model": "policy", "messages": messages}


def user(text):
    return {"role": "user", "content": text}


async def call(environment, url, key, messages=START):
    """Status and body of a request that a process inside makes."""
    result = await environment.exec(["python3", "-c", CLIENT, url, key, json.dumps(body(messages))], timeout_s=30)
    assert result.exit_code == 0, result.stderr
    status, _, text = result.stdout.partition(" ")
    return int(status), json.loads(text)


async def test_a_process_inside_talks_to_its_policy(environment):
    policy = token_policy(["look", "done"])
    async with opened(policy) as http, http.gateway.inside(environment, http.session, timeout_s=60) as url:
        status, first = await call(environment, url, http.session.key)
        history = [*START, first["choices"][0]["message"], {"role": "user", "content": "ok"}]
        status, _ = await call(environment, url, http.session.key, history)
        assert status == 200
    assert len(policy.segments) == 1
    proved(policy)


async def test_large_messages_pass_both_ways(environment):
    text = "0123456789abcdef" * 50_000
    await environment.write_file("/testbed/body", json.dumps(body([user("x" * 3_000_000)])).encode())
    policy = ScriptedPolicy([text])
    async with opened(policy) as http, http.gateway.inside(environment, http.session, timeout_s=60) as url:
        words = ["python3", "-c", CLIENT, url, http.session.key, "@body", "out"]
        assert (await environment.exec(words, timeout_s=60)).stdout == "200 out\n"
        answer = json.loads(await environment.read_file("/testbed/out"))
    assert answer["choices"][0]["message"]["content"] == text
    assert len(http.episode.messages[0].content) == 3_000_000


async def test_many_connections_at_once(environment):
    policy = token_policy(lambda _: Answer("ok", delay_s=0.05))
    async with opened(policy) as http, http.gateway.inside(environment, http.session, timeout_s=60) as url:
        asked = [[user(str(i))] for i in range(8)]
        answers = await asyncio.gather(*(call(environment, url, http.session.key, messages) for messages in asked))
    assert [status for status, _ in answers] == [200] * 8
    assert len(policy.segments) == 8
    proved(policy)


async def test_the_key_of_another_rollout_is_refused_there_and_noted(environment):
    assert "x-forwarded-for" in CLIENT  # which a server behind a proxy would believe
    async with opened(ScriptedPolicy(["never"])) as http, another(http, ScriptedPolicy(["of another"])) as other:
        async with http.gateway.inside(environment, http.session, timeout_s=60) as url:
            status, answer = await call(environment, url, other.session.key)
        assert (status, answer["error"]["code"]) == (401, "invalid_api_key")
        assert any("401" in note for note in http.episode.notes)


async def refused(environment, url):
    """Nothing listens there, seen from inside."""
    address = url.removeprefix("http://").removesuffix("/v1").split(":")
    probe = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 2)"
    return "refused" in (await environment.exec(["python3", "-c", probe, *address])).stderr


async def test_nothing_listens_when_the_rollout_is_over(environment):
    async with opened(ScriptedPolicy(["one"])) as http:
        async with http.gateway.inside(environment, http.session, timeout_s=60) as url:
            assert not await refused(environment, url)
        assert await refused(environment, url)
        await until(lambda: http.gateway._bound == {})


async def test_no_other_environment_reaches_it_and_none_the_gateway_itself():
    async with (
        opened(ScriptedPolicy(["never"])) as http,
        sandbox() as mine,
        sandbox("b") as other,
        http.gateway.inside(mine, http.session, timeout_s=60) as url,
    ):
        assert await refused(other, url)
        for environment in (mine, other):
            assert await refused(environment, http.gateway.url)


class ExecOnly(SandboxEnvironment):
    """As of a third party, whose only way in is `exec`."""

    connect = Environment.connect


BREAK = """
for fifo in /tmp/.connection-*/out; do
  if [ -p "$fifo" ]; then timeout 1 head -c 3000 /dev/urandom > "$fifo"; fi
done
for process in /proc/[0-9]*; do
  if tr '\\0' ' ' 2>&- < $process/cmdline | grep -q 'passes bytes to and from'; then kill -9 "${process#/proc/}"; fi
done
"""


@pytest.mark.parametrize("backend", [SandboxEnvironment, ExecOnly])
async def test_an_agent_that_breaks_the_forwarder_harms_only_itself(backend):
    async with opened(ScriptedPolicy(["one"])) as http, sandbox(backend=backend) as environment:
        async with http.gateway.inside(environment, http.session, timeout_s=60) as url:
            await environment.exec(["bash"], stdin=BREAK.encode(), cwd="/", timeout_s=20)
            assert await refused(environment, url)
            assert await environment.is_alive()
        assert http.session._failure is None


async def test_an_environment_that_dies_ends_the_rollout():
    async with opened(ScriptedPolicy(["one"])) as http, sandbox() as environment:

        async def agent():
            async with http.gateway.inside(environment, http.session, timeout_s=60):
                await environment.stop()
                await asyncio.sleep(30)

        with pytest.raises(EnvironmentUnavailable):
            await http.session.run(agent())


async def test_without_python_inside_it_says_so():
    bare = DummyEnvironment(spec_for(Image(), EnvironmentConfig(), label="a"))
    async with opened(ScriptedPolicy(["one"])) as http, bare:
        with pytest.raises(ScaffoldError, match="needs python3"):
            await http.gateway.inside(bare, http.session, timeout_s=5).__aenter__()


class Apart(LocalEnvironment):
    """Each command has a network of its own."""

    async def exec(self, argv, **options):
        return await super().exec(["unshare", "-n", *argv], **options)


async def test_a_backend_whose_commands_have_a_loopback_each_is_told_apart():
    apart = Apart(spec_for(Image(files={"a.py": ""}), EnvironmentConfig(), label="a"))
    async with opened(ScriptedPolicy(["one"])) as http, apart:
        with pytest.raises(ScaffoldError, match="do not share a loopback"):
            await http.gateway.inside(apart, http.session, timeout_s=30).__aenter__()
