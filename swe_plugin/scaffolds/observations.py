"""What the model sees of a command's output: safe characters, and no more of them than it may read."""

from __future__ import annotations

import re

__all__ = ["clean", "cut_middle", "observe"]

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor (ECMA-48, 5.4)
    r"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)"  # OSC, DCS and their kin, up to BEL, ST or the end
    r"|[ -/]*[0-~])?"  # two-character escapes, or a lone ESC
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")


def clean(text: str) -> str:
    """Text that can be logged, tokenized and stored: no terminal escapes, no NUL or other control character
    but newline and tab, no lone surrogate. ``\\r\\n`` becomes a newline."""
    text = text.replace("\r\n", "\n")
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    return _SURROGATES.sub("\ufffd", _CONTROLS.sub("", text))


def cut_middle(text: str, limit: int) -> str:
    """At most `limit` characters of `text`; of a longer one the head, how much is missing, and the tail."""
    if len(text) <= limit:
        return text
    head, tail = text[: (limit + 1) // 2], text[len(text) - limit // 2 :]
    return f"{head}\n[... {len(text) - limit} characters left out ...]\n{tail}"


def observe(text: str, limit: int) -> str:
    """`text` cleaned and cut."""
    return cut_middle(clean(text), limit)
