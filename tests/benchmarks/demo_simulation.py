"""The demo's training without verl: `python tests/benchmarks/demo_simulation.py --seed 1 --prompts 8 --samples 16`.

Screens settings in minutes: the same tasks, model, prompts and parser, episodes by `SimulatedEpisode` (a test shows
that it equals real execution), and GRPO as verl computes it (group-normalised advantages, token-mean, clip
0.2 / 0.28 with dual clip 3, KL loss of type low_var_kl, AdamW, cosine with warm-up). Prints one JSON line: mean reward
of each five steps, held-out resolved rate before and after, and the behaviours that the last five steps never solved.
"""

import argparse
import copy
import json
import math
import time
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from swe_plugin.config import DemoConfig
from swe_plugin.data.demo import balanced_order, split_tasks
from swe_plugin.types import Task
from swe_plugin.verl_adapter.demo.episodes import Conversation
from swe_plugin.verl_adapter.demo.sampling import run_episodes
from swe_plugin.verl_adapter.demo_model import prepare_demo

LIMITS = {"max_turns": 3, "max_turn_tokens": 16}
CLIP_LOW, CLIP_HIGH, CLIP_DUAL = 0.2, 0.28, 3.0
GRAD_NORM = 0.5


def settings() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in {"seed": 0, "steps": 30, "prompts": 16, "samples": 8, "epochs": 4, "warmup": 5}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    for name, value in {"lr": 1e-3, "min-lr-ratio": 0.02, "entropy": 0.0, "kl": 0.05}.items():
        parser.add_argument(f"--{name}", type=float, default=value)
    return parser.parse_args()


def lr_factor(step: int, given: argparse.Namespace) -> float:
    """transformers' cosine schedule with warm-up, as verl steps it: once per batch, from 0."""
    if step < given.warmup:
        return step / given.warmup
    progress = (step - given.warmup) / max(given.steps - given.warmup, 1)
    return given.min_lr_ratio + (1 - given.min_lr_ratio) * 0.5 * (1 + math.cos(math.pi * progress))


def advantages(rewards: torch.Tensor) -> torch.Tensor:
    """Of rewards [prompts, samples], flattened (verl's `compute_grpo_outcome_advantage`)."""
    centred = rewards - rewards.mean(1, keepdim=True)
    return (centred / (rewards.std(1, keepdim=True) + 1e-6)).flatten()


def padded(conversations: list[Conversation]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Ids, attention and loss mask, [rows, longest]; each row ends on its last sampled token."""
    rows = []
    for conversation in conversations:
        end = max(i for i, sampled in enumerate(conversation.mask) if sampled) + 1
        rows.append((conversation.ids[:end], conversation.mask[:end]))
    width = max(len(ids) for ids, _ in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    attention, mask = torch.zeros_like(ids), torch.zeros(len(rows), width)
    for i, (row, sampled) in enumerate(rows):
        ids[i, : len(row)], attention[i, : len(row)] = torch.tensor(row), 1
        mask[i, : len(row)] = torch.tensor(sampled, dtype=torch.float)
    return ids, attention, mask[:, 1:]


def log_probs(model: Any, ids: torch.Tensor, attention: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-prob of each id after the first and entropy of its distribution, [rows, T - 1]."""
    logs = torch.log_softmax(model(input_ids=ids, attention_mask=attention).logits[:, :-1].float(), -1)
    return logs.gather(-1, ids[:, 1:, None])[..., 0], -(logs.exp() * logs).sum(-1)


def low_var_kl(new: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Schulman's k3 estimate of KL(new || reference) per token, clamped as in verl's `kl_penalty_forward`."""
    difference = (reference - new).clamp(-20, 20)
    return (difference.exp() - difference - 1).clamp(-10, 10)


def update(
    model: Any,
    reference: Any,
    optimizer: torch.optim.Optimizer,
    conversations: list[Conversation],
    advantage: torch.Tensor,
    given: argparse.Namespace,
) -> None:
    ids, attention, mask = padded(conversations)
    tokens = mask.sum()
    if not given.entropy and not given.kl:  # a row without advantage has no gradient, but its tokens count
        chosen = advantage != 0
        ids, attention, mask, advantage = ids[chosen], attention[chosen], mask[chosen], advantage[chosen]
    if not len(ids):
        return
    with torch.no_grad():
        old, _ = log_probs(model, ids, attention)
        base, _ = log_probs(reference, ids, attention)
    advantage = advantage[:, None]
    for _ in range(given.epochs):
        new, entropy = log_probs(model, ids, attention)
        ratio = (new - old).exp()
        loss = torch.max(-advantage * ratio, -advantage * ratio.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH))
        loss = torch.where(advantage < 0, torch.min(loss, -advantage * CLIP_DUAL), loss)
        loss = loss + given.kl * low_var_kl(new, base)
        optimizer.zero_grad()
        (((loss - given.entropy * entropy) * mask).sum() / tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), GRAD_NORM)
        optimizer.step()


def resolved(model: Any, tokenizer: Any, tasks: list[Task]) -> float:
    """Greedy resolved rate."""
    conversations = run_episodes(model, tokenizer, tasks, greedy=True, **LIMITS)
    return sum(c.episode.resolved for c in conversations) / len(tasks)


def main() -> None:
    given = settings()
    torch.set_num_threads(1)
    folder = prepare_demo(DemoConfig(seed=given.seed)).model
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    reference = copy.deepcopy(model)
    torch.manual_seed(given.seed)
    train, held_out = split_tasks(given.seed)
    order = balanced_order(train, given.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=given.lr, weight_decay=0.01)
    began, before, curve = time.time(), resolved(model, tokenizer, held_out), []
    solved: dict[str, float] = {}
    for step in range(given.steps):
        for group in optimizer.param_groups:
            group["lr"] = given.lr * lr_factor(step, given)
        batch = [order[(step * given.prompts + i) % len(order)] for i in range(given.prompts)]
        asked = [task for task in batch for _ in range(given.samples)]
        conversations = run_episodes(model, tokenizer, asked, **LIMITS)
        rewards = torch.tensor([float(c.episode.resolved) for c in conversations]).view(given.prompts, given.samples)
        update(model, reference, optimizer, conversations, advantages(rewards), given)
        curve.append(float(rewards.mean()))
        solved = {} if step == given.steps - 5 else solved
        for task, group in zip(batch, rewards, strict=True):
            solved[task.metadata["behaviour"]] = solved.get(task.metadata["behaviour"], 0.0) + float(group.sum())
    lost = sorted(name for name, number in solved.items() if not number)
    fives = [round(sum(curve[i : i + 5]) / len(curve[i : i + 5]), 2) for i in range(0, len(curve), 5)]
    held = [round(before, 3), round(resolved(model, tokenizer, held_out), 3)]
    results = {"curve": fives, "held_out": held, "lost": lost, "seconds": round(time.time() - began)}
    print(json.dumps(vars(given) | results), flush=True)


if __name__ == "__main__":
    main()
