"""Whatever an agent does with its conversations: every token it was answered with is proved, and none trains twice."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from swe_plugin.gateway.request import ChatRequest
from swe_plugin.gateway.session import Session
from swe_plugin.scaffolds.base import Episode
from swe_plugin.tokens import segment_faults
from swe_plugin.types import Message

from .gateways import RENDERER, proved, token_policy

ACTS = st.sampled_from(["go on", "go on", "ask again", "open", "branch", "compact", "rewind", "ask twice at once"])
MOVES = st.lists(st.tuples(ACTS, st.integers(0, 7)), min_size=1, max_size=14)


class Agent:
    """Any number of conversations with one session."""

    def __init__(self) -> None:
        self.number = 0
        self.policy = token_policy(self._answer)
        self.session = Session(self.policy, Episode(), max_calls=1000)
        self.histories: list[list[Message]] = []
        self.replies: list[str] = []

    def _answer(self, _):
        self.number += 1
        return f"<think>t</think> answer {self.number} "

    async def ask(self, messages):
        reply = await self.session.answer(ChatRequest(tuple(messages)))
        return [*messages, Message("assistant", reply.message.content.rpartition("</think>")[2].strip())]

    async def do(self, act: str, which: int) -> None:
        user = Message("user", f"{act} {self.number}")  # never the same question twice, unless it is asked again
        if act == "open" or not self.histories:
            self.histories.append(await self.ask([user]))
            return
        place = which % len(self.histories)
        history = self.histories[place]
        if act == "go on":
            self.histories[place] = await self.ask([*history, user])
        elif act == "ask again":
            self.histories[place] = await self.ask(history[:-1])
        elif act == "ask twice at once":
            one, other = await asyncio.gather(self.ask([*history, user]), self.ask([*history, user]))
            assert one == other
            self.histories[place] = one
        elif act == "branch":
            asked = [[*history, Message("user", f"{side} {self.number}")] for side in ("left", "right")]
            self.histories[place : place + 1] = await asyncio.gather(*map(self.ask, asked))
        elif act == "compact":
            self.histories[place] = await self.ask([history[0], user])
        elif len(history) > 2:
            self.histories[place] = await self.ask([*history[: -len(history) // 2 or 1], user])


@settings(max_examples=60, deadline=None)
@given(MOVES)
def test_every_answer_that_it_went_on_with_is_trained_once_and_proved(moves):
    async def play():
        agent = Agent()
        for act, which in moves:
            await agent.do(act, which)
        return agent

    agent = asyncio.run(play())
    report = proved(agent.policy)
    texts = [
        RENDERER.decode(segment.ids[span.start : span.stop])
        for segment in agent.policy.segments
        for span in segment.spans
        if span.kind == "sampled"
    ]
    assert len(texts) == len(set(texts)) == agent.number - report.n_superseded
    assert all(segment_faults(segment) == [] for segment in agent.policy.segments)
    for history in agent.histories:
        for message in history:
            if message.role == "assistant":
                assert sum(text.endswith(f"{message.content} ") for text in texts) == 1, message
