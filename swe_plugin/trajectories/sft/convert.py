"""`Converter`: conversations to rows, each with what is wrong about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from swe_plugin.errors import ConfigError
from swe_plugin.tokens import segment_faults, training_rows
from swe_plugin.tokens.offline import drifts, encode_conversation
from swe_plugin.types import ToolCall

if TYPE_CHECKING:
    from swe_plugin.tokens.renderers.chat_template import ChatTemplateRenderer
    from swe_plugin.trajectories.formats import Conversation

__all__ = ["Converter", "Problem", "SftRow"]


@dataclass(frozen=True, slots=True)
class SftRow:
    """One row.

    Attributes:
        name: of the trajectory.
        input_ids: length T.
        loss_mask: 1 on ids to train.
        log_probs: as sampled, 0.0 where the mask is 0; None where only the text is known.
        reward: if it is known.
    """

    name: str
    input_ids: Sequence[int]
    loss_mask: Sequence[int]
    log_probs: Sequence[float] | None = None
    reward: float | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """A trajectory that gives no row (`fatal`), or a place where the template would write it otherwise."""

    name: str
    text: str
    fatal: bool = False


@dataclass(slots=True)
class Converter:
    """Makes rows, and keeps an account of what it could not do.

    Recorded tokens are taken as they are. Of text only, answers are encoded as their model would have to sample them.

    Attributes:
        renderer: of the model; None takes recorded tokens only.
        max_length: longest row; longer ones are left out, never cut. 0: any.
        min_reward: trajectories with less, or with none, are left out. None: all are taken.
        check: render every conversation whole, and report where the template is not append-only.
        problems: found so far.
        left_out: reason -> trajectories.
    """

    renderer: ChatTemplateRenderer | None = None
    max_length: int = 0
    min_reward: float | None = None
    check: bool = False
    problems: list[Problem] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)

    def rows(self, conversation: Conversation) -> Iterator[SftRow]:
        """Rows of one trajectory."""
        if self.min_reward is not None and (conversation.reward is None or conversation.reward < self.min_reward):
            self._leave_out(f"reward below {self.min_reward:g}, or unknown")
            return
        try:
            made = list(self._recorded(conversation) if conversation.segments else self._text(conversation))
        except (ConfigError, ValueError) as error:
            self.problems.append(Problem(conversation.name, str(error), fatal=True))
            return
        for row in made:
            if self.max_length and len(row.input_ids) > self.max_length:
                self._leave_out(f"longer than {self.max_length} tokens")
            elif not any(row.loss_mask):
                self._leave_out("nothing to train")
            else:
                yield row

    def _recorded(self, conversation: Conversation) -> Iterator[SftRow]:
        for segment in conversation.segments:
            if faults := segment_faults(segment):
                raise ValueError("; ".join(faults))
        for row in training_rows(conversation.segments, 1 << 30, 1 << 30):
            prompt = len(row.prompt_ids)
            yield SftRow(
                conversation.name,
                [*row.prompt_ids, *row.response_ids],
                [0] * prompt + row.response_mask,
                [0.0] * prompt + row.response_log_probs,
                conversation.reward,
            )

    def _text(self, conversation: Conversation) -> Iterator[SftRow]:
        if self.renderer is None:
            raise ValueError("no tokens are recorded: give --tokenizer")
        tools = conversation.tools or _schemas(conversation)
        messages = conversation.messages
        row = encode_conversation(self.renderer, messages, tools=tools, untrained=conversation.untrained)
        if self.check:
            for drift in drifts(self.renderer, messages, row, tools=tools):
                where = f"before message {drift.messages}, at token {drift.position}"
                text = f"{where}: the row has {drift.stream!r}, the template would write {drift.template!r}"
                self.problems.append(Problem(conversation.name, text))
        yield SftRow(conversation.name, row.ids, row.mask, None, conversation.reward)

    def _leave_out(self, reason: str) -> None:
        self.left_out[reason] = self.left_out.get(reason, 0) + 1


def _schemas(conversation: Conversation) -> list[Mapping[str, Any]]:
    """Schemas of the tools that a conversation calls, where its source does not say what was offered."""
    calls: dict[str, ToolCall] = {call.name: call for m in conversation.messages for call in m.tool_calls}
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": "",
                "parameters": {"type": "object", "properties": {key: {"type": "string"} for key in call.arguments}},
            },
        }
        for name, call in sorted(calls.items())
    ]
