"""Token rows of conversations of which only the text is known, for supervised training."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from swe_plugin.tokens.prompt_log import first_difference
from swe_plugin.types import Message

if TYPE_CHECKING:
    from swe_plugin.tokens.renderers.chat_template import ChatTemplateRenderer

__all__ = ["Drift", "TextRow", "drifts", "encode_conversation"]

_SHOWN = 12
"""Ids of each side that a `Drift` shows as text."""


@dataclass(slots=True)
class TextRow:
    """A conversation up to its last answer.

    Attributes:
        ids: the stream, length T.
        mask: 1 on the ids of answers, their turn ends included.
        turns: position after which each further message was added, and how many messages had been.
    """

    ids: list[int]
    mask: list[int]
    turns: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Drift:
    """A place where the template, given the whole conversation, would write something else than the stream holds.

    Attributes:
        messages: how many of the conversation the template was given.
        position: of the first id that differs.
        stream: text of the stream there.
        template: text of the template there.
    """

    messages: int
    position: int
    stream: str
    template: str


def encode_conversation(
    renderer: ChatTemplateRenderer,
    messages: Sequence[Message],
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    untrained: Collection[int] = (),
) -> TextRow:
    """The stream that a policy would have made of this conversation, answer by answer.

    Args:
        renderer: of the model to be trained.
        messages: the whole conversation; what follows the last answer is left out.
        tools: that were offered.
        untrained: indices of answers that get mask 0.

    Raises:
        ConfigError: the template refuses a message.
        ValueError: there is no answer, nothing before the first, or nothing between two.
    """
    answers = [i for i, message in enumerate(messages) if message.role == "assistant"]
    if not answers or answers[0] == 0:
        raise ValueError("no answer that follows a message")
    row = TextRow([], [])
    answer: list[int] = []
    for before, index in zip([-1, *answers], answers, strict=False):
        if index == before + 1:
            raise ValueError(f"messages {before} and {index} are two answers in a row")
        new = messages[before + 1 : index]
        if before < 0:
            context = renderer.initial(new, tools=tools)
        else:
            pieces = renderer.extension(new, sampled=answer, tools=tools)
            context = [i for piece in pieces for i in piece.ids]
        row.ids += context
        row.turns.append((len(row.ids), index))
        answer = renderer.answer(messages[index], tools=tools)
        row.mask += [0] * len(context) + [int(index not in untrained)] * len(answer)
        row.ids += answer
    return row


def drifts(
    renderer: ChatTemplateRenderer,
    messages: Sequence[Message],
    row: TextRow,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
) -> list[Drift]:
    """Where the template is not append-only on this conversation: it is rendered whole before every answer.

    Each place is reported once, by the first answer that it precedes.

    Raises:
        ConfigError: the template refuses the conversation.
    """
    found: dict[int, Drift] = {}
    for length, count in row.turns:
        whole = renderer.initial(messages[:count], tools=tools)
        at = first_difference(whole, row.ids[:length])
        if at < max(len(whole), length) and at not in found:
            stream, template = (renderer.decode(ids[at : at + _SHOWN]) for ids in (row.ids[:length], whole))
            found[at] = Drift(count, at, stream, template)
    return list(found.values())
