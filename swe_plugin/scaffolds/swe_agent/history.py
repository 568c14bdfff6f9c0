"""SWE-agent's history processors: what of the past the model is shown. A change of the past opens a token segment."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from swe_plugin.errors import ConfigError
from swe_plugin.types import Message

__all__ = ["HistoryProcessor", "LastObservations", "RemoveRegex", "make_processor"]


class HistoryProcessor(Protocol):
    """Changes what is shown of a conversation, never the conversation itself."""

    def shown(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages with some of the old ones shortened; as many as there were."""
        ...


@dataclass(frozen=True)
class LastObservations:
    """``last_n_observations``: older ones are replaced by a line that says how long they were.

    Attributes:
        n: observations that stay, the instance's message counted.
        polling: observations are taken away this many at a time.
    """

    n: int
    polling: int = 1

    def shown(self, messages: Sequence[Message]) -> Sequence[Message]:
        """See `HistoryProcessor.shown`."""
        places = [i for i, message in enumerate(messages) if message.role in ("user", "tool")]
        removed = max(0, len(places) // self.polling * self.polling - self.n)
        shown = list(messages)
        for i in places[1:removed]:
            count = len(shown[i].content.splitlines())
            shown[i] = replace(shown[i], content=f"Old environment output: ({count} lines omitted)")
        return shown


@dataclass(frozen=True)
class RemoveRegex:
    """``remove_regex``: what matches is taken out of all messages but the last ``keep_last``."""

    remove: tuple[str, ...]
    keep_last: int = 0

    def shown(self, messages: Sequence[Message]) -> Sequence[Message]:
        """See `HistoryProcessor.shown`."""
        end = len(messages) - self.keep_last
        return [self._stripped(message) if i < end else message for i, message in enumerate(messages)]

    def _stripped(self, message: Message) -> Message:
        if message.role == "assistant":
            return message  # an answer is shown as it was sampled
        text = message.content
        for pattern in self.remove:
            text = re.sub(pattern, "", text, flags=re.DOTALL)
        return replace(message, content=text) if text != message.content else message


def make_processor(raw: Any, key: str) -> HistoryProcessor | None:
    """A processor as SWE-agent's configuration writes it; None for one that changes nothing here (`cache_control`).

    Raises:
        ConfigError: another kind, or wrong values.
    """
    key = f"{key}: agent.history_processors"
    kind = raw.get("type") if isinstance(raw, Mapping) else None
    try:
        if kind == "last_n_observations":
            made = LastObservations(int(raw["n"]), int(raw.get("polling", 1)))
            if made.n < 1 or made.polling < 1:
                raise ValueError("n and polling must be at least 1")
            return made
        if kind == "remove_regex":
            patterns = tuple(map(str, raw.get("remove", ["<diff>.*</diff>"])))
            for pattern in patterns:
                re.compile(pattern)
            return RemoveRegex(patterns, int(raw.get("keep_last", 0)))
    except (KeyError, TypeError, ValueError, re.error) as error:
        raise ConfigError(key, raw, f"{type(error).__name__}: {error}") from error
    if kind in ("cache_control", "default"):
        return None
    raise ConfigError(key, raw, "there are last_n_observations, remove_regex, cache_control and default")
