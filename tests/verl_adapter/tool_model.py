"""A tiny model that has learned to call tools, for runs of verl.

By hand: ``python -m verl_adapter.tool_model DIRECTORY [TEMPLATE]``. Its rows are made by `encode_conversation` from
simulated episodes of the demo's tasks, as `swe-plugin convert` makes rows.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from tokens.chatml import TOOLS as TEMPLATE
from transformers import LlamaConfig, LlamaForCausalLM

from swe_plugin.data.demo import FIXES, LOOK, SUBMIT, SimulatedEpisode, split_tasks
from swe_plugin.scaffolds.parsers import TOOLS
from swe_plugin.tokens.offline import TextRow, encode_conversation
from swe_plugin.tokens.renderers.chat_template import ChatTemplateRenderer
from swe_plugin.types import Message, Task, ToolCall
from swe_plugin.verl_adapter.demo.episodes import prompts
from swe_plugin.verl_adapter.demo.tokenizer import build_tokenizer

STEPS, BATCH = 40, 8
POSITIONS = 1024


def conversation(task: Task, dice: random.Random) -> list[Message]:
    """Look, any edit, hand in; each a tool call."""
    episode, messages = SimulatedEpisode(task, 3), prompts().opening(task)
    for turn, command in enumerate((LOOK, dice.choice(FIXES), SUBMIT)):
        call = ToolCall("bash", {"command": command}) if command != SUBMIT else ToolCall(SUBMIT, {})
        messages.append(Message("assistant", "", (ToolCall(call.name, call.arguments, f"call{turn:03}00"),)))
        result = prompts().observation(task, episode.step(command))
        messages.append(Message("tool", result, tool_call_id=f"call{turn:03}00"))
    return messages[:-1]


def rows(renderer: ChatTemplateRenderer, tasks: list[Task]) -> Iterator[TextRow]:
    dice = random.Random(0)
    while True:
        yield encode_conversation(renderer, conversation(dice.choice(tasks), dice), tools=TOOLS)


def make(directory: Path, template: str = TEMPLATE) -> float:
    """Write model and tokenizer; returns the last loss in nats per token of an answer."""
    torch.manual_seed(0)
    tasks = split_tasks(0)[0]
    raw = [[{"role": m.role, "content": m.content} for m in prompts().opening(task)] for task in tasks[:50]]
    words = build_tokenizer(["x"])
    texts = [words.apply_chat_template(m, chat_template=template, tools=list(TOOLS), tokenize=False) for m in raw]
    call = '<tool_call>\n{"name": "bash", "arguments": {"command": "%s"}}\n</tool_call>'
    calls = [call % command for command in (LOOK, *FIXES)] + [call % SUBMIT]
    words = build_tokenizer([*texts, *calls * 50])
    words.chat_template = template
    renderer = ChatTemplateRenderer(words, tools=True)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=512,
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            head_dim=64,
            max_position_embeddings=POSITIONS,
            tie_word_embeddings=True,
            initializer_range=0.08,
            bos_token_id=None,
            eos_token_id=words.eos_token_id,
            pad_token_id=words.pad_token_id,
            attn_implementation="sdpa",
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    loss, source = torch.tensor(0.0), rows(renderer, tasks)
    for _ in range(STEPS):
        batch = [next(source) for _ in range(BATCH)]
        width = max(len(row.ids) for row in batch)
        ids = torch.tensor([row.ids + [0] * (width - len(row.ids)) for row in batch])
        mask = torch.tensor([row.mask + [0] * (width - len(row.mask)) for row in batch])
        loss = model(input_ids=ids, labels=torch.where(mask == 1, ids, -100)).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    words.save_pretrained(directory)
    model.save_pretrained(directory)
    return float(loss.detach())


if __name__ == "__main__":
    print(make(Path(sys.argv[1]), *(Path(path).read_text() for path in sys.argv[2:])))
