"""What of an answer is said, and what was only thought before."""

from __future__ import annotations

__all__ = ["said"]

_ENDS = ("</think>", "<|channel|>final<|message|>")
_CHANNEL = "<|channel|>"


def said(text: str) -> str:
    """What follows the last end of a thought; nothing if no channel of the answer is the final one (gpt-oss)."""
    for end in _ENDS:
        text = text.rpartition(end)[2]
    return "" if text.startswith(_CHANNEL) else text
