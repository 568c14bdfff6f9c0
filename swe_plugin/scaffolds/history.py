"""What of a conversation the model is shown: all of it, or all but old observations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from swe_plugin.types import Message

__all__ = ["NOTE", "recent"]

NOTE = "[{n} characters of an earlier output were left out here]"
"""What stands in the place of an observation that is no longer shown."""


def recent(messages: Sequence[Message], keep: int) -> Sequence[Message]:
    """The conversation with old observations replaced by a note.

    They go `keep` at a time, as soon as `keep` newer ones remain: the last `keep` to ``2 * keep - 1`` are shown in
    full. Each replacement changes the past and so opens a new token segment; one at a time would open one per turn.

    Args:
        messages: the whole conversation; everything before the first answer always stays.
        keep: observations to keep; 0 keeps all.
    """
    first = next((i for i, message in enumerate(messages) if message.role == "assistant"), len(messages))
    places = [i for i, message in enumerate(messages) if i > first and message.role in ("user", "tool")]
    old = places[: max(len(places) // keep - 1, 0) * keep] if keep else []
    if not old:
        return messages
    shown = list(messages)
    for i in old:
        shown[i] = replace(shown[i], content=NOTE.format(n=len(shown[i].content)))
    return shown
