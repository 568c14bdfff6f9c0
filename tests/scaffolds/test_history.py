"""What of the past is shown: the opening and every answer always, observations while they are recent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_plugin.config import ScaffoldConfig
from swe_plugin.environments.base import EnvironmentSpec
from swe_plugin.environments.dummy import DummyEnvironment
from swe_plugin.policies import ScriptedTokenServer, TokenLimits, TokenPolicy
from swe_plugin.scaffolds.base import Episode
from swe_plugin.scaffolds.bash import BashScaffold
from swe_plugin.scaffolds.history import NOTE, recent
from swe_plugin.tokens import audit_segments, training_rows
from swe_plugin.tokens.renderers.bytes import ByteRenderer
from swe_plugin.types import Image, Message, StopReason, Task

OPENING = [Message("system", "be brief"), Message("user", "fix it")]


def conversation(turns: int) -> list[Message]:
    said = [(Message("assistant", f"a{n}"), Message("tool", f"output {n}", tool_call_id=f"c{n}")) for n in range(turns)]
    return [*OPENING, *(message for pair in said for message in pair)]


def hidden(messages) -> int:
    return sum(message.content.startswith(NOTE[:1]) for message in messages)


def test_zero_keeps_all():
    messages = conversation(50)
    assert recent(messages, 0) is messages


@given(st.integers(0, 40), st.integers(1, 9))
def test_the_newest_stay_the_oldest_go_and_nothing_else_changes(turns, keep):
    whole = conversation(turns)
    shown = recent(whole, keep)
    gone = hidden(shown)
    assert turns - gone in range(min(turns, keep), 2 * keep)
    assert gone % keep == 0
    assert [hidden([m]) for m in shown if m.role == "tool"] == [1] * gone + [0] * (turns - gone)
    assert [(m.role, m.tool_call_id) for m in shown] == [(m.role, m.tool_call_id) for m in whole]
    assert [m for m in shown if m.role != "tool"] == [m for m in whole if m.role != "tool"]


@pytest.mark.parametrize(("turns", "keep", "segments"), [(12, 0, 1), (12, 20, 1), (12, 3, 3), (12, 1, 11)])
async def test_a_shortened_history_opens_a_segment_and_every_token_is_proved(turns, keep, segments):
    renderer = ByteRenderer()
    server = ScriptedTokenServer(renderer.encode, renderer.END, [f"a{n}" for n in range(turns)])
    policy = TokenPolicy(renderer, server, TokenLimits(1 << 16))
    history = list(OPENING)
    for n in range(turns):
        history.append((await policy.respond(recent(history, keep))).message)
        history.append(Message("user", f"output {n}"))
    assert len(policy.segments) == segments
    report = audit_segments(policy.segments, policy.journal.records)
    assert report.ok, report.violations
    rows = training_rows(policy.segments, 1 << 16, 1 << 16)
    answers = sum(len(f"a{n}") + 1 for n in range(turns))
    assert sum(sum(row.response_mask) for row in rows) == answers  # each answer is trained once, in one segment


async def summarized(answers, **settings):
    """Stop reason, episode, policy and prompts of an episode on bytes, with a real token policy."""
    renderer = ByteRenderer()
    server = ScriptedTokenServer(renderer.encode, renderer.END, answers)
    policy = TokenPolicy(renderer, server, TokenLimits(1 << 16))
    environment = DummyEnvironment(EnvironmentSpec(Image(files={"a.py": "x = 1\n"})))
    episode = Episode()
    await environment.start()
    scaffold = BashScaffold(ScaffoldConfig(summarize_after=2, **settings))
    stop = await scaffold.run(Task("t-1", "the problem"), environment, policy, episode)
    return stop, episode, policy, [renderer.decode(call.prompt_ids) for call in server.calls]


LOOK, SUBMIT = "```bash\ncat a.py\n```", "```bash\nsubmit\n```"


async def test_a_summary_stands_for_the_conversation_in_a_new_segment():
    answers = [LOOK, LOOK, "<think>hm</think>x is 1", LOOK, LOOK, "x is still 1", SUBMIT]
    stop, episode, policy, prompts = await summarized(answers)
    assert stop is StopReason.SUBMITTED
    assert len(policy.segments) == 3
    assert "about to be removed" in prompts[2]
    for prompt, note, other in ((prompts[3], "x is 1", "x is still"), (prompts[6], "x is still 1", "x is 1\n")):
        assert "the problem" in prompt
        assert note in prompt
        assert not any(gone in prompt for gone in ("hm", "cat a.py", "about to be removed", other))
    assert len(episode.turns) == 7
    assert [m.role for m in episode.messages].count("assistant") == 7  # the record has it all
    report = audit_segments(policy.segments, policy.journal.records)
    assert report.ok, report.violations
    rows = training_rows(policy.segments, 1 << 16, 1 << 16)
    assert sum(sum(row.response_mask) for row in rows) == sum(len(text) + 1 for text in answers)


async def test_an_answer_without_a_summary_changes_nothing():
    stop, _, policy, prompts = await summarized([LOOK, LOOK, "<think>hm</think>", LOOK, SUBMIT])
    assert stop is StopReason.SUBMITTED
    assert len(policy.segments) == 1
    assert "no summary was found" in prompts[3]


async def test_calls_beside_a_summary_are_not_run():
    call = '<tool_call>{"name": "bash", "arguments": {"command": "cat a.py"}}</tool_call>'
    submit = '<tool_call>{"name": "submit", "arguments": {}}</tool_call>'
    stop, episode, *_ = await summarized([call, call, call, submit], action="tools")
    assert stop is StopReason.SUBMITTED
    assert [turn.actions for turn in episode.turns] == [["cat a.py"], ["cat a.py"], [], []]
