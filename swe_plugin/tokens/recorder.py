"""`TokenRecorder`: keeps the ids of one rollout exactly as they were sampled."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from swe_plugin.errors import TokenStreamError
from swe_plugin.tokens.renderer import Piece
from swe_plugin.tokens.server import Completion
from swe_plugin.types import Segment, Span

__all__ = ["RecorderEvent", "TokenRecorder"]


@dataclass(frozen=True, slots=True)
class RecorderEvent:
    """Something about the stream that no token shows.

    Attributes:
        kind: ``empty`` (an answer without ids), ``aborted`` (a call given up by the server),
            ``superseded`` (an answer asked for again) or ``segment`` (a history that does not extend the last).
        turn: assistant turn it belongs to.
        detail: for the record.
    """

    kind: str
    turn: int
    detail: str = ""


class TokenRecorder:
    """Builds the segments of one rollout, append-only.

    The rules (DESIGN "Tokens"): mask 1 only on ids from a `Completion`; everything else has mask 0, log-prob
    0.0 and version -1; spans are consecutive and cover [0, T); what was appended is never changed. An
    answer is committed together with the context it was sampled in, so a call that failed leaves nothing.

    A completion that spans a weight sync is recorded with its per-token versions where the engine gives
    them (``extra["versions"]``), else with the *oldest* version: staleness is then never understated.

    Args:
        beside: a recorder of the same rollout: segments, events and turns are common, the open segment is not.
    """

    def __init__(self, beside: TokenRecorder | None = None) -> None:
        self.segments: list[Segment] = beside.segments if beside else []
        self.events: list[RecorderEvent] = beside.events if beside else []
        self._turns: list[TokenRecorder] = beside._turns if beside else []
        """Who recorded each turn."""
        self._open: Segment | None = None
        self._undoable = False

    @property
    def ids(self) -> array[int]:
        """Ids of the open segment (the live array: copy it before it leaves the rollout)."""
        return self._current().ids

    @property
    def turn(self) -> int:
        """Index of the next assistant turn, counted over the whole rollout."""
        return len(self._turns)

    @property
    def prompt_length(self) -> int:
        """Ids of the opening prompt of the open segment."""
        return self._current().prompt_length

    @property
    def response_length(self) -> int:
        """Ids after the opening prompt of the open segment, observations included."""
        segment = self._current()
        return len(segment.ids) - segment.prompt_length

    def note(self, kind: str, detail: str = "") -> None:
        """Record an event of the coming turn."""
        self.events.append(RecorderEvent(kind, self.turn, detail))

    def open(self, prompt_ids: Sequence[int]) -> None:
        """Start a new segment with a whole prompt.

        Raises:
            TokenStreamError: the prompt is empty.
        """
        if not prompt_ids:
            raise TokenStreamError("a segment cannot start without a prompt")
        if self.segments:
            self.note("segment", f"segment {len(self.segments)} opened: the history does not extend the last one")
        self._open = Segment(prompt_length=len(prompt_ids))
        self.segments.append(self._open)
        self._context(prompt_ids, "prompt")

    def extend(self, pieces: Sequence[Piece]) -> None:
        """Append ids that nobody sampled to the open segment.

        Raises:
            TokenStreamError: no segment is open, or a piece is neither observation nor glue.
        """
        for piece in pieces:
            if piece.kind not in ("observation", "glue"):
                raise TokenStreamError(f"context of kind {piece.kind!r}; expected observation or glue")
            self._context(piece.ids, piece.kind)

    def sample(self, completion: Completion) -> None:
        """Append what the policy sampled in exactly the context recorded so far.

        An empty completion appends nothing and is kept as an event.

        Raises:
            TokenStreamError: no segment is open, the completion was aborted, or its lists do not match.
        """
        segment = self._current()
        versions = self._versions(completion)
        if len(completion.token_ids):
            self._append(completion.token_ids, "sampled", completion.log_probs, versions)
            if (experts := completion.extra.get("routed_experts")) is not None:
                segment.routed_experts = experts  # engines report it from position 0, so the last call has it all
        else:
            self.note("empty")
        self._undoable = True
        self._turns.append(self)

    def retract(self) -> None:
        """Take back the last answer, because it is being asked for again: only the answer that the rollout
        went on with is trained. Its turn is free again, unless a recorder beside this one had one since.

        Raises:
            TokenStreamError: the last thing recorded is not an answer.
        """
        if not self._undoable:
            raise TokenStreamError("the stream does not end with an answer")
        segment = self._current()
        turn = max(turn for turn, recorder in enumerate(self._turns) if recorder is self)
        if turn == self.turn - 1:
            del self._turns[-1]
        self._undoable = False
        if segment.spans[-1].kind == "sampled" and segment.spans[-1].turn == turn:
            start = segment.spans.pop().start
            del segment.ids[start:], segment.mask[start:], segment.log_probs[start:], segment.weight_versions[start:]
            if segment.routed_experts is not None:
                segment.routed_experts = segment.routed_experts[:start]
        self.note("superseded")

    def _current(self) -> Segment:
        if self._open is None:
            raise TokenStreamError("no segment is open")
        return self._open

    def _context(self, ids: Sequence[int], kind: str) -> None:
        self._undoable = False
        if count := len(ids):
            self._append(ids, kind, array("d", [0.0]) * count, array("i", [-1]) * count)

    def _append(self, ids: Sequence[int], kind: str, log_probs: Sequence[float], versions: Sequence[int]) -> None:
        segment, count = self._current(), len(ids)
        try:
            new = array("I", ids), array("d", log_probs), array("i", versions)
        except (TypeError, OverflowError) as error:
            raise TokenStreamError(f"not token ids with log-probs and versions: {error}") from error
        start = len(segment.ids)
        segment.ids += new[0]
        segment.mask += array("b", [int(kind == "sampled")]) * count
        segment.log_probs += new[1]
        segment.weight_versions += new[2]
        segment.spans.append(Span(start, start + count, kind, self.turn))

    @staticmethod
    def _versions(completion: Completion) -> Sequence[int]:
        count = len(completion.token_ids)
        if completion.aborted:
            raise TokenStreamError("an aborted completion cannot be recorded")
        if len(completion.log_probs) != count:
            raise TokenStreamError(f"{count} sampled ids came with {len(completion.log_probs)} log-probs")
        if not all(map(math.isfinite, completion.log_probs)):
            raise TokenStreamError("a sampled id came with a log-prob that is not finite")
        versions: Sequence[int] = completion.extra.get("versions") or [completion.min_version] * count
        if len(versions) != count:
            raise TokenStreamError(f"{count} sampled ids came with {len(versions)} weight versions")
        return versions
