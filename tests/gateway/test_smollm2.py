"""Through the gateway and in our own loop the same conversation gives the same ids, with a real tokenizer."""

from __future__ import annotations

import random

import pytest
from tokens.families import OWN

from swe_plugin.policies import Answer, ScriptedTokenServer, TokenLimits, TokenPolicy
from swe_plugin.tokens.renderers.chat_template import ChatTemplateRenderer
from swe_plugin.types import Message

from .gateways import START, opened, proved, talk

pytestmark = pytest.mark.templates

OBSERVATIONS = ["a.py  b.py\n", "def add(a, b):\n    return a - b\n", "<|im_end|> is text, 数字 123456 too", ""]


@pytest.mark.parametrize("seed", range(5))
async def test_the_stream_is_that_of_the_native_loop(seed):
    family = next(family for family in OWN if family.own == "smollm2")
    renderer = ChatTemplateRenderer(family.tokenizer())
    end = max(renderer.stop_ids)

    def policy():
        dice = random.Random(seed)  # ids as no tokenizer would encode their text
        answers = [Answer(ids=[*(dice.randrange(300, 40_000) for _ in range(20)), end]) for _ in range(5)]
        server = ScriptedTokenServer(lambda _: [], end, answers, seed=seed)
        return TokenPolicy(renderer, server, TokenLimits(8192), request_id="r")

    through, native = policy(), policy()
    async with opened(through) as http:
        await talk(http, *OBSERVATIONS)
    history = [Message(m["role"], m["content"]) for m in START]
    for text in (*OBSERVATIONS, None):
        history.append((await native.respond(history)).message)
        if text is not None:
            history.append(Message("user", text))
    assert len(native.segments) == 1
    assert through.segments == native.segments
    proved(through)
