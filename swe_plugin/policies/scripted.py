"""`ScriptedPolicy`: answers from a list or a function, without tokens or model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from swe_plugin.errors import PolicyError
from swe_plugin.types import Message, Reply, Segment

__all__ = ["ScriptedAnswer", "ScriptedPolicy"]

ScriptedAnswer = str | Message | Reply | Exception
"""A text, a whole message or reply, or an error to raise."""


class ScriptedPolicy:
    """Satisfies `policies.base.Policy`; for tests, gold patches and trying a scaffold out.

    Args:
        script: one answer per call, or a function of the history.

    Attributes:
        calls: the history of each call, oldest first.
    """

    def __init__(self, script: Iterable[ScriptedAnswer] | Callable[[Sequence[Message]], ScriptedAnswer]) -> None:
        self.calls: list[list[Message]] = []
        self._answer = script if callable(script) else _from_list(script)

    @property
    def segments(self) -> Sequence[Segment]:
        """Always empty: nothing is sampled."""
        return ()

    async def respond(self, messages: Sequence[Message], *, tools: Sequence[Mapping[str, Any]] = ()) -> Reply:
        """Give the next scripted answer; `tools` are ignored.

        Raises:
            PolicyError: the script is used up.
            Exception: whatever the script holds at this place.
        """
        self.calls.append(list(messages))
        answer = self._answer(messages)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Reply):
            return answer
        return Reply(answer if isinstance(answer, Message) else Message("assistant", answer))


def _from_list(script: Iterable[ScriptedAnswer]) -> Callable[[Sequence[Message]], ScriptedAnswer]:
    answers = iter(script)

    def answer(_: Sequence[Message]) -> ScriptedAnswer:
        return next(answers, PolicyError("the script has no more answers"))

    return answer
