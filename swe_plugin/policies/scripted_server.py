"""`ScriptedTokenServer`: a `TokenServer` without a model, with knobs for everything that goes wrong."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from swe_plugin.errors import PolicyError
from swe_plugin.tokens.server import Completion

__all__ = ["Answer", "ScriptedTokenServer", "ServerCall"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server does on one call.

    Attributes:
        text: encoded and, unless `cut`, followed by the stop id.
        ids: sampled ids as they are, instead of `text`.
        cut: leave the stop id out, as after a length limit.
        empty: no ids at all.
        aborted: report the call as aborted.
        error: raise this instead of answering.
        versions: oldest and newest weight version.
        delay_s: seconds before answering.
    """

    text: str = ""
    ids: Sequence[int] | None = None
    cut: bool = False
    empty: bool = False
    aborted: bool = False
    error: Exception | None = None
    versions: tuple[int, int] = (0, 0)
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ServerCall:
    """One call as the server saw it, and what it gave back (None if it raised)."""

    request_id: str
    prompt_ids: tuple[int, ...]
    max_tokens: int
    completion: Completion | None


class ScriptedTokenServer:
    """Answers from a script, cut at `max_tokens` like a real server.

    Args:
        encode: text to ids, e.g. ``ByteRenderer().encode``.
        stop_id: appended to each answer that is not cut.
        script: one answer per call, or a function of the prompt ids.
        seed: of the log-probs, which are uniform in (-3, 0].

    Attributes:
        calls: every call, oldest first.
    """

    def __init__(
        self,
        encode: Callable[[str], Sequence[int]],
        stop_id: int,
        script: Iterable[str | Answer] | Callable[[Sequence[int]], str | Answer],
        *,
        seed: int = 0,
    ) -> None:
        self.calls: list[ServerCall] = []
        self._encode, self._stop_id = encode, stop_id
        self._rng = random.Random(seed)  # noqa: S311 - fake log-probs
        self._next = script if callable(script) else _from_list(script)

    async def generate(self, request_id: str, prompt_ids: Sequence[int], *, max_tokens: int) -> Completion:
        """Give the next scripted completion.

        Raises:
            PolicyError: the script is used up.
            Exception: whatever the script holds at this place.
        """
        answer = self._next(prompt_ids)
        answer = Answer(answer) if isinstance(answer, str) else answer
        await asyncio.sleep(answer.delay_s)
        completion = None if answer.error else self._complete(answer, max_tokens)
        self.calls.append(ServerCall(request_id, tuple(prompt_ids), max_tokens, completion))
        if completion is None:
            assert answer.error is not None
            raise answer.error
        return completion

    def _complete(self, answer: Answer, max_tokens: int) -> Completion:
        if answer.empty:
            ids: list[int] = []
        elif answer.ids is not None:
            ids = list(answer.ids)
        else:
            ids = [*self._encode(answer.text), *([] if answer.cut else [self._stop_id])]
        ids = ids[:max_tokens]
        return Completion(
            token_ids=ids,
            log_probs=[-3.0 * self._rng.random() for _ in ids],
            min_version=answer.versions[0],
            max_version=answer.versions[1],
            aborted=answer.aborted,
        )


def _from_list(script: Iterable[str | Answer]) -> Callable[[Sequence[int]], str | Answer]:
    answers = iter(script)

    def answer(_: Sequence[int]) -> str | Answer:
        return next(answers, Answer(error=PolicyError("the script has no more answers")))

    return answer
