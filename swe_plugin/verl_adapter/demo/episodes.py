"""Demo conversations as token ids, for the warm start, the baselines and screening runs outside verl."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2

from swe_plugin.data.demo import SimulatedEpisode
from swe_plugin.types import ExecResult, Task

__all__ = ["Conversation", "answer", "first_messages", "quote", "read_command", "render"]

_DOCSTRING = re.compile(r'"""(.*?)"""')
_ACTION = re.compile(r"```bash\s*\n(.*?)\n?```", re.DOTALL)


@cache
def _template(name: str) -> jinja2.Template:
    text = files("swe_plugin.scaffolds.prompts").joinpath(f"demo_{name}.jinja").read_text(encoding="utf-8")
    return jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False).from_string(text)  # noqa: S701


def render(name: str, **variables: Any) -> str:
    """One of the demo's prompt templates, filled in."""
    return _template(name).render(**variables)


def first_messages(task: Task) -> list[dict[str, str]]:
    """System and user message that open an episode."""
    return [
        {"role": "system", "content": render("system", task=task)},
        {"role": "user", "content": render("instance", task=task)},
    ]


def answer(command: str, thought: str = "") -> str:
    """How an agent writes `command`, after a line of `thought` if there is one."""
    return f"{thought}\n```bash\n{command}\n```" if thought else f"```bash\n{command}\n```"


def quote(observation: str) -> str:
    """The docstring that an observation shows, or nothing: what an agent repeats before it edits."""
    match = _DOCSTRING.search(observation)
    return match[1] if match else ""


def read_command(text: str) -> str | None:
    """The command of an answer: its only fenced bash block, or None."""
    blocks = _ACTION.findall(text)
    return blocks[0].strip() if len(blocks) == 1 else None


@dataclass(slots=True)
class Conversation:
    """A simulated episode and its append-only token stream.

    Attributes:
        tokenizer: a ChatML tokenizer.
        episode: what the commands do.
        ids: token ids up to now, generation prompt included while the episode runs; length T.
        mask: 1 on ids of the agent's answers, length T.
        commands: what was read from each answer.
        output: what the last command printed.
    """

    tokenizer: Any
    episode: SimulatedEpisode
    ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    commands: list[str | None] = field(default_factory=list)
    output: str = ""

    def __post_init__(self) -> None:
        text = self.tokenizer.apply_chat_template(
            first_messages(self.episode.task), tokenize=False, add_generation_prompt=True
        )
        self._extend(_encode(self.tokenizer, text), 0)

    def reply(self, ids: Sequence[int]) -> None:
        """Append one answer, with its end-of-turn id if it has one, run its command, append what comes back."""
        end = self.tokenizer.eos_token_id
        self._extend(ids, 1)
        closed = bool(ids) and ids[-1] == end
        command = read_command(self.tokenizer.decode(ids[:-1] if closed else ids)) if closed else None
        self.commands.append(command)
        result = self.episode.step(command)
        self.output = result.stdout
        if not self.episode.done:
            self._extend(([] if closed else [end]) + self._observation(command, result), 0)

    def _observation(self, command: str | None, result: ExecResult) -> list[int]:
        if command is None:
            content = render("format_error", task=self.episode.task)
        else:
            content = render("observation", task=self.episode.task, result=result, output=result.stdout)
        before, after = "\n<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"
        inner = self.tokenizer.encode(content, add_special_tokens=False, split_special_tokens=True)
        return _encode(self.tokenizer, before) + inner + _encode(self.tokenizer, after)

    def _extend(self, ids: Sequence[int], mask: int) -> None:
        self.ids += ids
        self.mask += [mask] * len(ids)


def _encode(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
    return ids
