"""`ByteRenderer`: ChatML over UTF-8 bytes, for tests and dry runs without any tokenizer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from swe_plugin.tokens.renderer import Piece
from swe_plugin.types import Message

__all__ = ["ByteRenderer"]


class ByteRenderer:
    """Ids 0..255 are bytes, 256 starts a turn, 257 ends it: text can never become a control id."""

    START = 256
    END = 257
    VOCAB_SIZE = 258

    @property
    def stop_ids(self) -> frozenset[int]:
        """The end-of-turn id."""
        return frozenset({self.END})

    def encode(self, text: str) -> list[int]:
        """UTF-8 bytes of a text; what is no valid Unicode becomes ``?``."""
        return list(text.encode("utf-8", "replace"))

    def initial(self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] = ()) -> list[int]:
        """All messages as ChatML, tools as a JSON line before them, and an open assistant turn."""
        ids = self.encode(json.dumps(list(tools)) + "\n") if tools else []
        for piece in (*self._pieces(messages), self._header("assistant")):
            ids += piece.ids
        return ids

    def extension(
        self, messages: Sequence[Message], *, sampled: Sequence[int], tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[Piece]:
        """Turn end if it was not sampled, the newline after it, the messages, an open assistant turn."""
        closed = bool(sampled) and sampled[-1] == self.END
        end = Piece([*([] if closed else [self.END]), *b"\n"], "glue")
        return [end, *self._pieces(messages), self._header("assistant")]

    def decode(self, ids: Sequence[int]) -> str:
        """Bytes of the turn as text; control ids are left out."""
        return bytes(i for i in ids if i < self.START).decode("utf-8", "replace")

    def _header(self, role: str) -> Piece:
        return Piece([self.START, *f"{role}\n".encode()], "glue")

    def _pieces(self, messages: Sequence[Message]) -> list[Piece]:
        pieces: list[Piece] = []
        for message in messages:
            body = Piece(self.encode(message.content), "observation")
            pieces += [self._header(message.role), body, Piece([self.END, *b"\n"], "glue")]
        return pieces
