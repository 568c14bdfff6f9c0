"""Simulated episodes of a model, all tasks of a batch at once, in plain torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache

from swe_plugin.data.demo import SimulatedEpisode
from swe_plugin.types import Task
from swe_plugin.verl_adapter.demo.episodes import Conversation

__all__ = ["run_episodes", "sample"]


def run_episodes(
    model: Any, tokenizer: Any, tasks: Sequence[Task], *, max_turns: int, max_turn_tokens: int, greedy: bool = False
) -> list[Conversation]:
    """One finished conversation per task, sampled at temperature 1 with torch's global generator, or greedily."""
    conversations = [Conversation(tokenizer, SimulatedEpisode(task, max_turns)) for task in tasks]
    while live := [c for c in conversations if not c.episode.done]:
        prompts = [c.ids for c in live]
        answers = sample(model, prompts, tokenizer.eos_token_id, max_new_tokens=max_turn_tokens, greedy=greedy)
        for conversation, answer in zip(live, answers, strict=True):
            conversation.reply(answer)
    return conversations


def sample(
    model: Any, prompts: Sequence[Sequence[int]], end: int, *, max_new_tokens: int, greedy: bool
) -> list[list[int]]:
    """Continue each of N prompts (left-padded to one length) until `end` or `max_new_tokens`; `end` is kept."""
    width = max(len(prompt) for prompt in prompts)
    ids = torch.tensor([[end] * (width - len(prompt)) + list(prompt) for prompt in prompts])
    attention = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    positions = (attention.cumsum(1) - 1).clamp(min=0)
    cache = DynamicCache()
    answers: list[list[int]] = [[] for _ in prompts]
    with torch.no_grad():
        for _ in range(max_new_tokens):
            logits = model(
                input_ids=ids,
                attention_mask=attention,
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            ).logits[:, -1]
            chosen = logits.argmax(-1) if greedy else torch.multinomial(logits.float().softmax(-1), 1)[:, 0]
            for answer, token in zip(answers, chosen.tolist(), strict=True):
                if not answer or answer[-1] != end:
                    answer.append(token)
            if all(answer[-1] == end for answer in answers):
                break
            ids, positions = chosen[:, None], positions[:, -1:] + 1
            attention = torch.cat([attention, torch.ones_like(ids)], 1)
    return answers
