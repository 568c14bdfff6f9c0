"""The tiny model and its warm start: it learns what a command looks like, never which one solves a task."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from swe_plugin.data.demo import BEHAVIOURS, FIXES, LOOK, SUBMIT, SimulatedEpisode, split_tasks
from swe_plugin.types import Task
from swe_plugin.verl_adapter.demo.episodes import Conversation, answer, first_messages, prompts, quote
from swe_plugin.verl_adapter.demo.tokenizer import VOCABULARY

__all__ = ["build_model", "corpus", "random_command", "warm_start"]

MAX_TURNS = 3
"""Turns of a warm-start episode, as in training."""


USUAL = 0.75
"""Probability that a turn follows the usual course rather than being any kind of command."""


def random_command(rng: random.Random, turn: int) -> str:
    """A valid command for turn `turn` (from 0), chosen without regard to the task.

    Mostly the usual course of an episode (look, edit, hand in), else any kind; each edit is equally likely.
    """
    usual = (LOOK, rng.choice(FIXES), SUBMIT)
    return usual[min(turn, 2)] if rng.random() < USUAL else rng.choice(usual)


def corpus(seed: int) -> list[str]:
    """Texts to train the tokenizer on: prompts and files of train repositories, and the menu of commands."""
    texts: list[str] = []
    for task in split_tasks(seed)[0]:
        texts += [message["content"] for message in first_messages(task)]
        texts += [answer(command) for command in (LOOK, *FIXES, SUBMIT)]
        texts += [answer(FIXES[0], behaviour.phrase) for behaviour in BEHAVIOURS]
        texts += [text for path, text in task.image.files.items() if path.endswith(".py")]
    texts += [f"Return {behaviour.phrase}." for behaviour in BEHAVIOURS] * 100
    return [
        *texts,
        *["system\n", "user\n", "assistant\n", "done", prompts().format_error(split_tasks(seed)[0][0], "")] * 100,
    ]


def build_model(tokenizer: Any, seed: int) -> LlamaForCausalLM:
    """A randomly initialised Llama of about half a million parameters (2 layers x 128, 2 heads of 64).

    Heads of 64 because vLLM's CPU attention rejects 16. Weights are drawn four times wider than usual: with the
    usual 0.02 a word in the file hardly shows in the hidden state where the edit is chosen, and learning from
    rewards drifts to one edit for all tasks before it finds the connection.
    """
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        initializer_range=0.08,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        attn_implementation="sdpa",
        dtype=torch.float32,
    )
    return LlamaForCausalLM(config)


def _episodes(tokenizer: Any, seed: int) -> Iterator[Conversation]:
    rng = random.Random(f"warm start/{seed}")  # noqa: S311 - not a secret
    tasks: list[Task] = [task for offset in range(1, 5) for task in split_tasks(1000 * seed + offset)[0]]
    end = tokenizer.eos_token_id
    while True:
        conversation = Conversation(tokenizer, SimulatedEpisode(rng.choice(tasks), MAX_TURNS))
        while not conversation.episode.done:
            command = random_command(rng, conversation.episode.turns)
            thought = quote(conversation.observation) if command in FIXES else ""
            ids = tokenizer.encode(answer(command, thought), add_special_tokens=False)
            conversation.reply([*ids, end])
        yield conversation


def warm_start(
    model: LlamaForCausalLM, tokenizer: Any, *, seed: int, steps: int = 120, batch: int = 32, lr: float = 1e-3
) -> float:
    """Supervised steps on random valid commands; loss on the agent's tokens only.

    Returns:
        The last step's mean cross-entropy in nats per agent token.
    """
    torch.manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=steps, pct_start=0.1)
    episodes = _episodes(tokenizer, seed)
    model.train()
    loss = torch.tensor(0.0)
    for _ in range(steps):
        rows = [next(episodes) for _ in range(batch)]
        width = max(len(row.ids) for row in rows)
        ids = torch.full((batch, width), tokenizer.pad_token_id)
        labels = torch.full((batch, width), -100)
        for i, row in enumerate(rows):
            ids[i, : len(row.ids)] = torch.tensor(row.ids)
            labels[i, : len(row.ids)] = torch.where(torch.tensor(row.mask) == 1, torch.tensor(row.ids), -100)
        loss = model(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    model.eval()
    return float(loss.detach())
