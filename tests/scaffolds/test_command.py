"""Any agent with a command line, run inside the environment, against the policy through the gateway."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest
from gateway.gateways import proved, token_policy
from grading.local import LocalEnvironment, local
from rollout.workers import TASK, worker

from swe_plugin.config import ScaffoldConfig
from swe_plugin.errors import ConfigError, ScaffoldError
from swe_plugin.policies import Answer, TokenLimits
from swe_plugin.scaffolds.base import Episode
from swe_plugin.scaffolds.command import CommandScaffold
from swe_plugin.tokens import training_rows
from swe_plugin.trajectories.store import find_trajectories, load_trajectory
from swe_plugin.types import StopReason

AGENTS = Path(__file__).parent / "agents"
needs_node = pytest.mark.skipif(not shutil.which("node"), reason="there is no node")
NODE = f"node {AGENTS / 'agent.js'}"
FIX, SUBMIT = "```bash\nsed -i 's/- /+ /' calc.sh\n```", "```bash\nsubmit\n```"
ASK = """
python3 - <<'END'
import json, os, urllib.request
url, key = os.environ["OPENAI_BASE_URL"] + "/chat/completions", os.environ["OPENAI_API_KEY"]
body = json.dumps({"model": os.environ["OPENAI_MODEL"], "messages": [{"role": "user", "content": "hi"}]}).encode()
print(urllib.request.urlopen(urllib.request.Request(url, body, {"authorization": f"Bearer {key}"})).status)
END
"""


async def play(policy, command, *, episode=None, max_turns=5, **options):
    """Stop reason and episode of one run of a command in a local environment."""
    scaffold = CommandScaffold(ScaffoldConfig(max_turns=max_turns, options={"command": command, **options}))
    episode = episode or Episode()
    try:
        async with local(dict(TASK.image.files)) as environment:
            return await scaffold.run(TASK, environment, policy, episode), episode
    finally:
        await scaffold.close()


@needs_node
async def test_a_black_box_agent_in_another_language_solves_the_task_and_yields_rows(tmp_path):
    policy = token_policy([FIX, "```bash\ncat calc.sh\n```", SUBMIT])
    made = worker(LocalEnvironment, tmp_path, scaffold__name="command", scaffold__options={"command": NODE})
    result = await made.run(TASK, 0, lambda: policy, step=1, phase="train")
    port = int(made.scaffold._gateway.url.split(":")[2].split("/")[0])
    await made.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    assert (result.stop, result.reward) == (StopReason.SUBMITTED, 1.0), result.failures
    (row,) = training_rows(result.segments, 4096, 4096)
    assert sum(row.response_mask) == len(FIX) + len("```bash\ncat calc.sh\n```") + len(SUBMIT) + 3
    proved(policy)
    (directory,) = find_trajectories(tmp_path)
    record = load_trajectory(directory).result
    assert [message.role for message in record.messages] == ["user", "assistant"] * 3
    assert record.turns[-1].actions == [NODE]


@needs_node
async def test_its_rows_are_those_of_the_same_conversation_in_our_own_loop():
    script = [FIX, "```bash\nls\n```", SUBMIT]
    policy, native = token_policy(script), token_policy(script)
    _, episode = await play(policy, NODE)
    for index, message in enumerate(episode.messages):
        if message.role == "assistant":
            assert (await native.respond(episode.messages[:index])).message == message
    assert policy.segments == native.segments


async def test_the_exit_code_says_whether_it_handed_in():
    assert (await play(token_policy(["hello"]), ASK))[0] is StopReason.SUBMITTED
    stop, episode = await play(token_policy(["hello"]), f"{ASK}\necho broken >&2; exit 3")
    assert stop is StopReason.STOPPED
    assert episode.notes == ["the command ended with exit code 3: broken\n"]
    assert "200" in episode.turns[-1].results[0].stdout


async def test_a_command_that_takes_too_long_is_ended_and_its_work_kept():
    stop, episode = await play(token_policy(["hello"]), f"{ASK}\nsleep 60", timeout_s=3.0)
    assert stop is StopReason.WALL_CLOCK
    assert "took too long" in episode.notes[0]


async def test_an_agent_that_never_asks_is_a_broken_set_up_and_no_reward():
    made = worker(LocalEnvironment, scaffold__name="command", scaffold__options={"command": "no-such-agent"})
    result = await made.run(TASK, 0, lambda: token_policy([]), step=1, phase="train")
    assert (result.stop, result.reward) == (StopReason.SCAFFOLD_ERROR, None)
    assert "exit code 127 without an answer" in result.failures[0].error
    assert "no-such-agent: command not found" in result.notes[0]


@needs_node
async def test_a_full_context_and_used_up_turns_are_why_it_ended():
    full = token_policy([Answer("x" * 50, cut=True)], limits=TokenLimits(max_model_len=100))
    assert (await play(full, ASK))[0] is StopReason.SUBMITTED
    with pytest.raises(ScaffoldError, match="without an answer"):
        await play(token_policy([]), "true")
    stop, episode = await play(token_policy(["```bash\nls\n```"] * 9), NODE, max_turns=2)
    assert stop is StopReason.MAX_TURNS
    assert len(episode.turns) == 2


async def test_a_failing_policy_is_its_own_error_whatever_the_agent_makes_of_it():
    made = worker(LocalEnvironment, scaffold__name="command", scaffold__options={"command": f"{ASK} || true"})
    result = await made.run(TASK, 0, lambda: token_policy([]), step=1, phase="train")
    assert (result.stop, result.reward) == (StopReason.MODEL_ERROR, None)


async def test_templates_uploads_and_variables_reach_it():
    command = 'test "$WHO" = \'the policy of calc-1\' && test {{ prompt | quote }} = "$(cat)" && ' + ASK.strip()
    stop, _ = await play(token_policy(["hello"]), command, env={"WHO": "the {{ model }} of {{ task.instance_id }}"})
    assert stop is StopReason.SUBMITTED


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "swe.scaffold.options.command='': say how"),
        ({"comand": "x"}, "swe.scaffold.options.comand='x': unknown key; did you mean command?"),
        ({"command": "x", "timeout_s": "soon"}, "swe.scaffold.options.timeout_s='soon'"),
        ({"command": "{{ x"}, "swe.scaffold.options.command='{{ x': not a jinja template"),
        ({"command": "x", "upload": {"/opt/a": "/no/such"}}, "there is no such file"),
    ],
)
def test_what_is_wrong_is_said_when_it_is_built(options, says):
    with pytest.raises(ConfigError) as caught:
        CommandScaffold(ScaffoldConfig(options=options))
    assert says in str(caught.value)
