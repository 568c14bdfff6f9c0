"""Which token segment a request goes on with."""

from __future__ import annotations

import asyncio

import pytest

from swe_plugin.policies import Answer, TokenPolicy
from swe_plugin.tokens import segment_faults
from swe_plugin.types import Message

from .gateways import BASH, RENDERER, START, ask, events, opened, proved, talk, token_policy, until


def said(policy):
    """Per segment the texts that were sampled in it."""
    spans = [[(s, span) for span in s.spans if span.kind == "sampled"] for s in policy.segments]
    return [[RENDERER.decode(s.ids[span.start : span.stop]) for s, span in found] for found in spans]


async def native(script, observations):
    """The same conversation as a scaffold of ours has it."""
    policy = token_policy(script)
    history = [Message(m["role"], m["content"]) for m in START]
    for text in (None, *observations):
        if text is not None:
            history.append(Message("user", text))
        history.append((await policy.respond(history)).message)
    return policy


async def test_the_stream_is_that_of_the_native_loop():
    script, observations = ["look", "think </think> act", "done"], ["a\nb", "c  "]
    policy = token_policy(script)
    async with opened(policy) as http:
        await talk(http, *observations)
    assert policy.segments == (await native(script, observations)).segments


@pytest.mark.parametrize("kept", ["  act\n", "act", "thought</think>act"])
async def test_an_answer_that_comes_back_trimmed_or_without_its_thought_is_that_answer(kept):
    policy = token_policy(["thought</think>  act\n", "done"])
    async with opened(policy) as http:
        await ask(http)
        await ask(http, [*START, {"role": "assistant", "content": kept}, {"role": "user", "content": "ok"}])
    assert said(policy) == [["thought</think>  act\n", "done"]]
    proved(policy)


async def test_an_answer_that_comes_back_changed_opens_a_segment():
    policy = token_policy(["act", "done"])
    async with opened(policy) as http:
        await ask(http)
        await ask(http, [*START, {"role": "assistant", "content": "acted"}, {"role": "user", "content": "ok"}])
    assert said(policy) == [["act"], ["done"]]
    proved(policy)


async def test_a_sub_agent_has_a_segment_of_its_own_and_the_main_one_goes_on():
    policy = token_policy(["delegate", "sub looks", "sub done", "main done"])
    async with opened(policy) as http:
        history = await talk(http)
        await talk(http, "found", messages=[{"role": "user", "content": "you are the searcher"}])
        await ask(http, [*history, {"role": "user", "content": "the searcher found it"}])
    assert said(policy) == [["delegate", "main done"], ["sub looks", "sub done"]]
    proved(policy)
    turns = sorted(span.turn for s in policy.segments for span in s.spans if span.kind == "sampled")
    assert turns == [0, 1, 2, 3]


async def test_a_compacted_history_opens_a_segment_and_goes_on_in_it():
    policy = token_policy(["one", "two", "three", "four"])
    async with opened(policy) as http:
        await talk(http, "a")
        await talk(http, "c", messages=[*START, {"role": "user", "content": "so far: one, two"}])
    assert said(policy) == [["one", "two"], ["three", "four"]]
    proved(policy)


async def test_branches_of_one_prefix_that_run_at_once_are_apart():
    def script(prompt_ids):
        text = RENDERER.decode(prompt_ids)
        return Answer(f"to {text.rsplit('user', 1)[1].strip()[0]}" if "?" in text else "start", delay_s=0.02)

    policy = token_policy(script)
    async with opened(policy) as http:
        history = await talk(http)
        asked = [[*history, {"role": "user", "content": f"{name}?"}] for name in "AB"]
        answers = await asyncio.gather(*(ask(http, messages) for messages in asked))
        texts = [answer.json()["choices"][0]["message"]["content"] for answer in answers]
        assert texts == ["to A", "to B"]
    assert said(policy) in ([["start", "to A"], ["to B"]], [["start", "to B"], ["to A"]])
    assert [segment_faults(segment) for segment in policy.segments] == [[], []]
    proved(policy)


async def test_other_tools_open_a_segment():
    policy = token_policy(["one", "two"])
    async with opened(policy) as http:
        history = await talk(http)
        await ask(http, [*history, {"role": "user", "content": "go"}], tools=[BASH])
    assert said(policy) == [["one"], ["two"]]


async def test_a_retry_after_the_answer_takes_it_back():  # AReaL#1498
    policy = token_policy(["lost", "kept", "done"])
    async with opened(policy) as http:
        await ask(http)
        history = await talk(http, "a")
        contents = [message.content for message in http.episode.messages]
        assert contents == [m["content"] for m in history]
        assert len(http.episode.turns) == 2
    assert said(policy) == [["kept", "done"]]
    assert proved(policy).n_superseded == 1


async def test_a_retry_while_the_answer_is_on_its_way_gets_that_answer():
    policy = token_policy([Answer("once", delay_s=0.1)])
    async with opened(policy) as http:
        one, other = await asyncio.gather(ask(http), ask(http))
        assert one.json()["choices"] == other.json()["choices"]
        assert http.session.calls == 1
    assert said(policy) == [["once"]]


async def test_a_client_that_goes_away_leaves_nothing_and_its_retry_is_trained():
    policy = token_policy([Answer("never read", delay_s=30), "read"])
    async with opened(policy) as http:
        waiting = asyncio.ensure_future(ask(http))
        await until(lambda: http.session._flights)
        waiting.cancel()
        await until(lambda: not http.session._flights)
        assert (await ask(http)).status_code == 200
        assert any("went away" in note for note in http.episode.notes)
    assert said(policy) == [["read"]]
    assert [record.error[:9] for record in policy.journal.records] == ["Cancelled", ""]
    proved(policy)


async def test_streams_are_recorded_like_answers():
    policy = token_policy(["one", "two"])
    async with opened(policy) as http:
        text = events((await ask(http, stream=True)).text)[0]["choices"][0]["delta"]["content"]
        await ask(http, [*START, {"role": "assistant", "content": text}, {"role": "user", "content": "a"}], stream=True)
    assert said(policy) == [["one", "two"]]


def test_branches_share_segments_and_turns_but_not_the_open_one():
    policy = token_policy([])
    branch = policy.branch()
    assert isinstance(branch, TokenPolicy)
    policy.recorder.open([1])
    branch.recorder.open([2])
    assert [list(segment.ids) for segment in policy.segments] == [[1], [2]]
    assert (list(policy.recorder.ids), list(branch.recorder.ids)) == ([1], [2])
