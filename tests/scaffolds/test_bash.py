"""The bash agent, answer by answer, on a dummy environment and a scripted policy."""

from __future__ import annotations

import asyncio
import json

import pytest

from swe_plugin.config import ScaffoldConfig
from swe_plugin.environments.base import EnvironmentSpec
from swe_plugin.environments.dummy import DummyEnvironment
from swe_plugin.errors import ContextOverflow, EnvironmentUnavailable, PolicyError
from swe_plugin.policies.scripted import ScriptedPolicy
from swe_plugin.scaffolds.base import Episode
from swe_plugin.scaffolds.bash import BashScaffold
from swe_plugin.types import ExecResult, Image, Message, Reply, StopReason, Task, ToolCall

TASK = Task("t-1", "the problem", image=Image(files={"a.py": "x = 1\n"}))
SUBMIT = "```bash\nsubmit\n```"


def block(script: str) -> str:
    return f"I will run this.\n\n```bash\n{script}\n```\nThen we shall see."


def calls(*wanted: tuple[str, dict]) -> Message:
    return Message("assistant", "", tuple(ToolCall(name, args, f"c{i}") for i, (name, args) in enumerate(wanted)))


async def play(answers, *, handler=None, environment=None, episode=None, **settings):
    """Stop reason, episode, environment and policy of one episode."""
    environment = environment or DummyEnvironment(EnvironmentSpec(TASK.image), handler=handler)
    policy = ScriptedPolicy(answers)
    episode = episode or Episode()
    await environment.start()
    stop = await BashScaffold(ScaffoldConfig(**settings)).run(TASK, environment, policy, episode)
    return stop, episode, environment, policy


async def test_it_runs_a_script_per_turn_until_it_submits():
    stop, episode, environment, _ = await play([block("cat a.py"), block("echo hi\necho ho"), SUBMIT])
    assert stop is StopReason.SUBMITTED
    assert environment.commands == ["cat a.py", "echo hi\necho ho"]
    assert [message.role for message in episode.messages] == [
        "system", "user", "assistant", "user", "assistant", "user", "assistant",
    ]  # fmt: skip
    assert "the problem" in episode.messages[1].content
    assert "x = 1" in episode.messages[3].content
    assert [turn.actions for turn in episode.turns] == [["cat a.py"], ["echo hi\necho ho"], []]
    assert episode.turns[0].results[0].stdout == "x = 1\n"
    assert episode.n_format_errors == 0


async def test_every_call_of_the_policy_extends_the_history_of_the_last():
    _, _, _, policy = await play([block("pwd"), "no action", SUBMIT])
    for earlier, later in zip(policy.calls, policy.calls[1:], strict=False):
        assert later[: len(earlier)] == earlier


async def test_the_number_of_turns_is_limited():
    stop, episode, environment, _ = await play([block("pwd")] * 9, max_turns=3)
    assert stop is StopReason.MAX_TURNS
    assert len(environment.commands) == len(episode.turns) == 3


async def test_a_format_error_is_corrected_and_counted():
    stop, episode, _, policy = await play(["just words", block("pwd"), SUBMIT])
    assert stop is StopReason.SUBMITTED
    assert episode.n_format_errors == 1
    assert "found 0" in episode.turns[0].format_error
    assert "exactly one block" in policy.calls[1][-1].content


async def test_format_errors_in_a_row_end_it_but_a_good_answer_forgives():
    stop, episode, *_ = await play(["?", "?", block("pwd"), "?", "?", "?"], max_format_errors=3)
    assert stop is StopReason.FORMAT_ERRORS
    assert episode.n_format_errors == 5
    assert len(episode.turns) == 6


@pytest.mark.parametrize("action", ["fenced", "tools"])
async def test_a_cut_answer_is_never_run(action):
    cut = Reply(Message("assistant", block("echo boom"), (ToolCall("bash", {"command": "echo boom"}, "c0"),)), True)
    stop, episode, environment, _ = await play([cut, PolicyError("enough")], action=action, max_format_errors=1)
    assert stop is StopReason.FORMAT_ERRORS
    assert environment.commands == []
    assert "cut by the length limit" in episode.messages[-1].content
    assert episode.messages[-1].role == ("tool" if action == "tools" else "user")
    assert episode.messages[-1].tool_call_id == ("c0" if action == "tools" else "")


async def test_an_answer_without_text_is_a_format_error():
    stop, episode, *_ = await play([""], max_format_errors=1)
    assert stop is StopReason.FORMAT_ERRORS
    assert episode.n_format_errors == 1


async def test_a_full_context_ends_it_cleanly():
    stop, episode, *_ = await play([block("pwd"), ContextOverflow("full")])
    assert stop is StopReason.CONTEXT_FULL
    assert len(episode.turns) == 1


async def test_a_model_server_error_passes_through_with_the_work_kept():
    episode = Episode()
    environment = DummyEnvironment(EnvironmentSpec(TASK.image))
    await environment.start()
    with pytest.raises(PolicyError):
        await BashScaffold(ScaffoldConfig()).run(
            TASK, environment, ScriptedPolicy([block("pwd"), PolicyError("down")]), episode
        )
    assert [turn.actions for turn in episode.turns] == [["pwd"]]


async def test_a_dead_environment_passes_through_with_the_last_action_kept():
    episode = Episode()
    environment = DummyEnvironment(EnvironmentSpec(TASK.image))
    await environment.start()
    environment.kill()
    with pytest.raises(EnvironmentUnavailable):
        await BashScaffold(ScaffoldConfig()).run(TASK, environment, ScriptedPolicy([block("pwd")]), episode)
    assert episode.turns[0].actions == ["pwd"]
    assert episode.turns[0].results == []


async def test_a_cancelled_episode_keeps_everything_so_far():
    episode, begun = Episode(), asyncio.Event()

    async def handler(environment, script):
        if script == "hang":
            begun.set()
            await asyncio.sleep(60)
        return "one\n"

    running = asyncio.create_task(play([block("echo one"), block("hang")], handler=handler, episode=episode))
    await begun.wait()
    running.cancel()
    await asyncio.wait([running])
    assert [turn.actions for turn in episode.turns] == [["echo one"], ["hang"]]
    assert [result.stdout for turn in episode.turns for result in turn.results] == ["one\n"]
    assert episode.exec_s > 0


async def test_a_command_that_takes_too_long_is_an_observation():
    stop, episode, *_ = await play([block("sleep 60"), SUBMIT], command_timeout_s=0.02)
    assert stop is StopReason.SUBMITTED
    assert episode.turns[0].results[0].timed_out
    assert "was stopped after" in episode.messages[-2].content


async def test_a_long_output_is_cut_in_the_middle_and_says_how_much():
    _, episode, *_ = await play([block("x"), SUBMIT], handler=lambda *_: "A" * 5000 + "B" * 5000, observation_chars=100)
    seen = episode.messages[-2].content
    assert "A" * 50 + "\n[... 9900 characters left out ...]\n" + "B" * 50 in seen
    assert len(episode.turns[0].results[0].stdout) == 10_000


async def test_odd_characters_are_safe_to_store():
    noise = "\x1b[31mred\x1b[0m \x00 \ud800 \x1b]0;title\x07 bell\x07 a\r\nb\tc \x9b é"
    _, episode, *_ = await play([block("x"), SUBMIT], handler=lambda *_: ExecResult(noise))
    seen = episode.messages[-2].content
    assert "red  \ufffd  bell a\nb\tc  é" in seen
    assert json.loads(json.dumps(seen).encode()) == seen.encode().decode()


async def test_what_no_shell_could_run_is_a_format_error():
    stop, episode, environment, _ = await play([block("echo \0"), block("echo \udc80")], max_format_errors=2)
    assert stop is StopReason.FORMAT_ERRORS
    assert environment.commands == []
    assert "NUL" in episode.turns[0].format_error


async def test_tool_calls_run_in_order_and_each_has_its_answer():
    both = calls(("bash", {"command": "echo 1"}), ("bash", {"command": "echo 2"}))
    stop, episode, environment, policy = await play([both, calls(("submit", {}))], action="tools")
    assert stop is StopReason.SUBMITTED
    assert environment.commands == ["echo 1", "echo 2"]
    assert [(m.role, m.tool_call_id) for m in policy.calls[1][-2:]] == [("tool", "c0"), ("tool", "c1")]
    assert episode.turns[0].actions == ["echo 1", "echo 2"]


async def test_calls_after_a_submit_do_not_run():
    both = calls(("bash", {"command": "echo 1"}), ("submit", {}), ("bash", {"command": "echo 2"}))
    _, _, environment, _ = await play([both], action="tools")
    assert environment.commands == ["echo 1"]


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("python", {}, "unknown tool 'python'"),  # verl#3070
        ("bash", {}, "non-empty string"),
        ("bash", {"command": " "}, "non-empty string"),
        ("bash", {"command": ["ls"]}, "non-empty string"),
        ("bash", {"command": "a\0b"}, "NUL"),
        ("bash", "not even an object", "non-empty string"),
    ],
)
async def test_a_bad_tool_call_is_an_observation(name, arguments, says):
    bad = calls((name, arguments), ("bash", {"command": "echo ok"}))
    stop, episode, environment, policy = await play([bad, calls(("submit", {}))], action="tools")
    assert stop is StopReason.SUBMITTED
    assert environment.commands == ["echo ok"]
    assert says in policy.calls[1][-2].content
    assert episode.n_format_errors == 0


async def test_an_answer_without_tool_call_is_a_format_error():
    stop, episode, _, policy = await play([block("pwd"), calls(("submit", {}))], action="tools")
    assert stop is StopReason.SUBMITTED
    assert episode.n_format_errors == 1
    assert policy.calls[1][-1].role == "user"


async def test_calls_that_cannot_be_read_are_told_and_nothing_of_the_turn_is_run():
    bad = Reply(Message("assistant", "<tool_call>{"), problems=("tool call 2: not JSON (here)",))
    stop, episode, environment, policy = await play([bad, calls(("submit", {}))], action="tools")
    assert stop is StopReason.SUBMITTED
    assert environment.commands == []
    assert "tool call 2: not JSON (here)" in episode.turns[0].format_error
    assert "tool call 2" in policy.calls[1][-1].content
