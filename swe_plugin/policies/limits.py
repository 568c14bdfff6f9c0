"""`TokenLimits`: how long prompts, answers and rows may get."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TokenLimits"]


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """Limits in tokens; 0 means no limit, except for `max_model_len`.

    Attributes:
        max_model_len: the server's window, prompt and answer together.
        max_prompt_tokens: opening prompt of a segment (verl's ``data.max_prompt_length``).
        max_response_tokens: everything after the opening prompt, answers and observations, of one segment
            (verl's ``data.max_response_length``).
        max_turn_tokens: one answer.
    """

    max_model_len: int
    max_prompt_tokens: int = 0
    max_response_tokens: int = 0
    max_turn_tokens: int = 0

    def room(self, prompt_length: int, context_length: int) -> int:
        """Ids that may be sampled next; not positive when there is no room.

        Args:
            prompt_length: ids of the opening prompt of the segment.
            context_length: ids that will precede the answer, opening prompt included.
        """
        if self.max_prompt_tokens and prompt_length > self.max_prompt_tokens:
            return 0
        room = self.max_model_len - context_length
        if self.max_response_tokens:
            room = min(room, self.max_response_tokens - (context_length - prompt_length))
        return min(room, self.max_turn_tokens) if self.max_turn_tokens else room
