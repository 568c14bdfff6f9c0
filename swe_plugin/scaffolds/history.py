"""What of a conversation the model is shown: all of it, or less of what is old."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from swe_plugin.types import Message

__all__ = ["NOTE", "History", "recent"]

NOTE = "[{n} characters of an earlier output were left out here]"
"""What stands in the place of an observation that is no longer shown."""


class History:
    """One per rollout. A conversation that it shortens opens a new token segment.

    Args:
        keep: see `recent`.
        summarize_after: observations after which a summary is due; 0: never.
    """

    def __init__(self, keep: int = 0, summarize_after: int = 0) -> None:
        self._keep, self._summarize_after = keep, summarize_after
        self._summary = ""
        self._start = self._asked = 0

    def due(self, messages: Sequence[Message]) -> bool:
        """So much has come since a summary was last asked for that one is due."""
        if not self._summarize_after:
            return False
        start = max(self._asked, _opening(messages))
        return sum(message.role in ("user", "tool") for message in messages[start:]) >= self._summarize_after

    def summarized(self, messages: Sequence[Message], summary: str) -> None:
        """A summary was asked for; from now on it stands for all of `messages` but the opening, if it is not empty."""
        self._asked = len(messages)
        if summary:
            self._summary, self._start = summary, len(messages)

    def shown(self, messages: Sequence[Message]) -> Sequence[Message]:
        """What the model is to see of the whole conversation.

        The summary is told in the opening's last message: many templates refuse two messages of a user in a row.
        """
        if self._summary:
            opening = [*messages[: _opening(messages)]]
            opening[-1] = replace(opening[-1], content=f"{opening[-1].content}\n\n{self._summary}")
            messages = [*opening, *messages[self._start :]]
        return recent(messages, self._keep)


def recent(messages: Sequence[Message], keep: int) -> Sequence[Message]:
    """The conversation with old observations replaced by a note.

    They go `keep` at a time, as soon as `keep` newer ones remain: the last `keep` to ``2 * keep - 1`` are shown in
    full. Each replacement changes the past and so opens a new token segment; one at a time would open one per turn.

    Args:
        messages: the whole conversation; everything before the first answer always stays.
        keep: observations to keep; 0 keeps all.
    """
    first = _opening(messages)
    places = [i for i, message in enumerate(messages) if i > first and message.role in ("user", "tool")]
    old = places[: max(len(places) // keep - 1, 0) * keep] if keep else []
    if not old:
        return messages
    shown = list(messages)
    for i in old:
        shown[i] = replace(shown[i], content=NOTE.format(n=len(shown[i].content)))
    return shown


def _opening(messages: Sequence[Message]) -> int:
    """Messages before the first answer."""
    return next((i for i, message in enumerate(messages) if message.role == "assistant"), len(messages))
