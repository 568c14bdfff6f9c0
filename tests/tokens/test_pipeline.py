"""Whatever a conversation looks like, what is trained is what was sampled, where it was sampled."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swe_plugin.errors import ContextOverflow, PolicyError, PromptTooLong
from swe_plugin.policies import Answer, ScriptedTokenServer, TokenLimits, TokenPolicy
from swe_plugin.tokens import audit_segments, segment_faults, training_rows
from swe_plugin.tokens.renderers.bytes import ByteRenderer
from swe_plugin.tokens.renderers.chat_template import ChatTemplateRenderer
from swe_plugin.types import Message

from . import chatml

TOKENIZER = chatml.tokenizer(chatml.TOOLS)
RENDERER = ChatTemplateRenderer(TOKENIZER)
RENDERERS = {
    name: ChatTemplateRenderer(TOKENIZER, getattr(chatml, name))
    for name in ("TOOLS", "STRIPS_THOUGHTS", "OPENS_THOUGHT")
}
END = TOKENIZER.eos_token_id
BASH = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}

TEXT = st.one_of(
    st.text(st.characters(), max_size=12),
    st.sampled_from(
        [*chatml.SPECIAL, *chatml.TAGS, "a<|im_end|>\n<|im_start|>system\n", "\x00\x1b[1m", "\udcff", "  \n"]
    ),
)
ANSWER = st.builds(
    Answer,
    text=TEXT.filter(lambda t: not any("\ud800" <= c <= "\udfff" for c in t)),
    ids=st.one_of(st.none(), st.none(), st.lists(st.integers(0, len(TOKENIZER) - 1), max_size=6)),
    cut=st.booleans(),
    empty=st.integers(0, 9).map(lambda n: n == 7),
    aborted=st.integers(0, 9).map(lambda n: n == 7),
    error=st.sampled_from([None] * 19 + [PolicyError("down")]),
    versions=st.tuples(st.integers(0, 3), st.integers(3, 5)),
)


@dataclass
class Move:
    """What the scaffold does after an answer: observations, then perhaps an edited or repeated history."""

    observations: list[str] = field(default_factory=list)
    edit: bool = False
    again: bool = False
    as_tool: bool = False


MOVE = st.builds(
    Move,
    observations=st.lists(TEXT, min_size=1, max_size=3),
    edit=st.integers(0, 4).map(lambda n: n == 3),
    again=st.integers(0, 4).map(lambda n: n == 3),
    as_tool=st.booleans(),
)


async def converse(policy, moves, tools):
    """Play the moves; how far it gets is up to the script."""
    history = [Message("system", "be brief"), Message("user", "fix <|im_end|> it")]
    for move in moves:
        reply = await policy.respond(history, tools=tools)
        if move.again:
            reply = await policy.respond(history, tools=tools)
        history.append(reply.message)
        role = "tool" if tools and move.as_tool else "user"
        history += [Message(role, text) for text in move.observations]
        if move.edit:
            history[1] = Message("user", history[1].content + "!")


@settings(max_examples=70, deadline=None)
@given(
    st.lists(ANSWER, min_size=3, max_size=12),
    st.lists(MOVE, min_size=2, max_size=7),
    st.integers(300, 1000),
    st.integers(0, 9),
    st.sampled_from(sorted(RENDERERS)),
    st.booleans(),
)
def test_every_trained_token_was_sampled_in_its_context(answers, moves, window, turn_limit, template, follow):
    server = ScriptedTokenServer(lambda t: TOKENIZER.encode(t, add_special_tokens=False), END, itertools.cycle(answers))
    limits = TokenLimits(window, max_prompt_tokens=600, max_response_tokens=400, max_turn_tokens=turn_limit)
    renderer = RENDERERS[template]
    policy = TokenPolicy(renderer, server, limits, max_attempts=2, backoff_s=0.0, follow_template=follow)
    tools = [BASH] if template == "TOOLS" else []
    with contextlib.suppress(ContextOverflow, PolicyError, PromptTooLong):
        asyncio.run(converse(policy, moves, tools))

    report = audit_segments(policy.segments, policy.journal.records)
    assert report.ok, report.violations
    assert all(segment_faults(s) == [] for s in policy.segments)
    rows = training_rows(policy.segments, 600, 400)
    assert sum(sum(row.response_mask) for row in rows) == report.n_trained
    for row in rows:
        assert row.response_mask[-1] == 1
        assert len(row.prompt_ids) + len(row.response_ids) <= window
    # independently of journal and audit: each trained run follows a prompt that the server saw
    answered = {(c.prompt_ids, tuple(c.completion.token_ids)) for c in server.calls if c.completion}
    for row in rows:
        ids, masks = [*row.prompt_ids, *row.response_ids], [*(0 for _ in row.prompt_ids), *row.response_mask]
        segment = policy.segments[row.segment]
        for span in (s for s in segment.spans if s.kind == "sampled"):
            assert (tuple(ids[: span.start]), tuple(ids[span.start : span.stop])) in answered
            assert set(masks[span.start : span.stop]) == {1}
    aborted = [c for c in server.calls if c.completion and c.completion.aborted]
    assert len(report.unconsumed) >= sum(1 for c in aborted if c.completion.token_ids)


def test_ids_that_encode_differently_when_read_as_text_are_trained_as_sampled():  # Agent-R1#30, rllm#352
    pieces = [i for part in ("<", "think", ">") for i in TOKENIZER.encode(part, add_special_tokens=False)]
    assert TOKENIZER.encode(TOKENIZER.decode(pieces), add_special_tokens=False) != pieces
    server = ScriptedTokenServer(TOKENIZER.encode, END, [Answer(ids=[*pieces, END]), Answer("ok")])
    policy = TokenPolicy(RENDERER, server, TokenLimits(4096))

    async def run():
        history = [Message("user", "go")]
        history.append((await policy.respond(history)).message)
        assert history[-1].content == "<think>"
        await policy.respond([*history, Message("user", "go on")])

    asyncio.run(run())
    (segment,) = policy.segments
    assert [i for i, m in zip(segment.ids, segment.mask, strict=True) if m][: len(pieces)] == pieces


def test_thoughts_stay_in_the_stream_of_a_template_that_strips_them():  # SkyRL#410
    renderer = ChatTemplateRenderer(TOKENIZER, chatml.STRIPS_THOUGHTS)
    answers = [Answer("<think>hm</think>ls"), Answer("<think>ok</think>submit")]
    server = ScriptedTokenServer(lambda t: TOKENIZER.encode(t, add_special_tokens=False), END, answers)
    policy = TokenPolicy(renderer, server, TokenLimits(4096))

    async def run():
        history = [Message("user", "go")]
        history.append((await policy.respond(history)).message)
        await policy.respond([*history, Message("user", "a.py")])

    asyncio.run(run())
    assert "<think>hm</think>ls<|im_end|>\n" in TOKENIZER.decode(server.calls[1].prompt_ids)
    assert len(policy.segments) == 1


@pytest.mark.parametrize(
    ("template", "answer", "segments"),
    [
        ("STRIPS_THOUGHTS", "<think>hm</think>ls", 4),  # each turn, the thought before it goes
        ("STRIPS_THOUGHTS", "ls", 1),
        ("PLAIN", "<think>hm</think>ls", 1),
        ("OPENS_THOUGHT", "hm</think>ls", 4),  # the re-rendered past lacks the tag that opened the thought
    ],
)
def test_a_template_that_rewrites_the_past_opens_a_segment_if_so_wished(template, answer, segments):
    renderer = ChatTemplateRenderer(TOKENIZER, getattr(chatml, template))
    server = ScriptedTokenServer(lambda t: TOKENIZER.encode(t, add_special_tokens=False), END, [answer] * 4)
    policy = TokenPolicy(renderer, server, TokenLimits(4096), follow_template=True)

    async def run():
        history = [Message("user", "go")]
        for _ in range(4):
            history += [(await policy.respond(history)).message, Message("user", "a.py")]

    asyncio.run(run())
    assert len(policy.segments) == segments
    assert audit_segments(policy.segments, policy.journal.records).ok
    history = [Message("user", "go")]
    for call in server.calls:  # what the model saw is what the template renders of the whole conversation
        assert list(call.prompt_ids) == renderer.initial(history)
        history += [Message("assistant", answer), Message("user", "a.py")]


def test_work_is_linear_in_the_number_of_turns():
    """Rendered characters per turn stay the same, however long the conversation is."""
    rendered = []

    class Counting(ByteRenderer):
        def extension(self, messages, *, sampled, tools=()):
            rendered.append(sum(len(m.content) for m in messages))
            return super().extension(messages, sampled=sampled, tools=tools)

    server = ScriptedTokenServer(
        RENDERER.decode, ByteRenderer.END, itertools.repeat(Answer(ids=[65, ByteRenderer.END]))
    )
    policy = TokenPolicy(Counting(), server, TokenLimits(1 << 20))

    async def run():
        history = [Message("user", "go")]
        for _ in range(100):
            history += [(await policy.respond(history)).message, Message("user", "observation")]

    asyncio.run(run())
    assert rendered == [len("observation")] * 99
    assert len(policy.segments) == 1
