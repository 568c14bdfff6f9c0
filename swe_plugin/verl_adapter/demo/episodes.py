"""Demo conversations as token ids, for the warm start, the baselines and screening runs outside verl.

Prompts and parsing are the scaffold's own; only the environment is simulated.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from swe_plugin.config import ScaffoldConfig
from swe_plugin.data.demo import SUBMIT, SimulatedEpisode
from swe_plugin.scaffolds.parsers import ActionFormatError, parse_fenced
from swe_plugin.scaffolds.templates import Prompts
from swe_plugin.types import Task

__all__ = ["Conversation", "answer", "first_messages", "prompts", "quote", "read_command"]

_DOCSTRING = re.compile(r'"""\w+ (.*?)\.?"""')


@cache
def prompts() -> Prompts:
    """The demo's prompt templates."""
    return Prompts(
        ScaffoldConfig(
            system_prompt="demo", instance_prompt="demo", observation_prompt="demo", format_error_prompt="demo"
        )
    )


def first_messages(task: Task) -> list[dict[str, str]]:
    """System and user message that open an episode."""
    return [{"role": message.role, "content": message.content} for message in prompts().opening(task)]


def quote(observation: str) -> str:
    """What the docstring in an observation asks for, in its own words; empty if there is none."""
    match = _DOCSTRING.search(observation)
    return match[1] if match else ""


def answer(command: str, thought: str = "") -> str:
    """How an agent writes `command`, after a line of `thought` if there is one."""
    block = f"```bash\n{command}\n```"
    return f"{thought}\n{block}" if thought else block


def read_command(text: str) -> str | None:
    """The command of an answer, or None where the scaffold would see a format error."""
    try:
        action = parse_fenced(text)
    except ActionFormatError:
        return None
    return SUBMIT if action.submit else action.script


@dataclass(slots=True)
class Conversation:
    """A simulated episode and its append-only token stream.

    Attributes:
        tokenizer: a ChatML tokenizer.
        episode: what the commands do.
        ids: token ids up to now, generation prompt included while the episode runs; length T.
        mask: 1 on ids of the agent's answers, length T.
        commands: what was read from each answer.
        observation: what the agent was told last.
    """

    tokenizer: Any
    episode: SimulatedEpisode
    ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    commands: list[str | None] = field(default_factory=list)
    observation: str = ""

    def __post_init__(self) -> None:
        text = self.tokenizer.apply_chat_template(
            first_messages(self.episode.task), tokenize=False, add_generation_prompt=True
        )
        self._extend(self._encode(text), 0)

    def reply(self, ids: Sequence[int]) -> None:
        """Append one answer, with its end-of-turn id if it has one, run its command, append what comes back."""
        end = self.tokenizer.eos_token_id
        self._extend(ids, 1)
        closed = bool(ids) and ids[-1] == end
        command = read_command(self.tokenizer.decode(ids[:-1])) if closed else None
        self.commands.append(command)
        result = self.episode.step(command)
        if command is None:
            self.observation = prompts().format_error(self.episode.task, "no action")
        else:
            self.observation = prompts().observation(self.episode.task, result)
        if not self.episode.done:
            before, after = "\n<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"
            self._extend([] if closed else [end], 0)
            self._extend(self._encode(before), 0)
            self._extend(self._encode(self.observation, literal=True), 0)
            self._extend(self._encode(after), 0)

    def _encode(self, text: str, *, literal: bool = False) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=literal)
        return ids

    def _extend(self, ids: Sequence[int], mask: int) -> None:
        self.ids += ids
        self.mask += [mask] * len(ids)
