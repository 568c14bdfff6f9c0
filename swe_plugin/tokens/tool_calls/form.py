"""What every form of tool calls has in common."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["CallForm", "Found", "WrittenCall", "named_call", "read_json"]


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """One call as it was written.

    Attributes:
        name: of the tool; nobody has checked that there is one.
        arguments: by name.
        call_id: given by the model, or empty.
        typed: False where the form writes all values as text.
    """

    name: str
    arguments: Mapping[str, Any]
    call_id: str = ""
    typed: bool = True


@dataclass(slots=True)
class Found:
    """What a form finds in an answer.

    Attributes:
        rest: the text beside the calls.
        calls: in the order written.
        errors: one sentence per call that cannot be read.
    """

    rest: str
    calls: list[WrittenCall] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def add(self, number: int, read: Any, *args: Any) -> None:
        """Add what `read` returns, or the ValueError it raises."""
        try:
            self.calls.append(read(*args))
        except ValueError as error:
            self.errors.append(f"tool call {number}: {error}")


class CallForm(Protocol):
    """A way to write tool calls."""

    def find(self, text: str) -> Found:
        """All calls in `text`, and what is beside them."""
        ...


def named_call(raw: Any, key: str = "arguments") -> WrittenCall:
    """The call in a JSON object of a name and its arguments, which may be JSON in a string.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(raw, dict) or not isinstance(name := raw.get("name"), str) or not name:
        raise ValueError(f'expected {{"name": ..., "{key}": {{...}}}}')
    arguments = raw.get(key, {})
    if isinstance(arguments, str):
        arguments = read_json(arguments)
    if not isinstance(arguments, dict):
        raise ValueError(f"{key} must be a JSON object")  # noqa: TRY004 - the caller reports ValueErrors
    call_id = raw.get("id", "")
    return WrittenCall(name, arguments, call_id if isinstance(call_id, str) else "")


def read_json(text: str) -> Any:
    """The JSON value that is all of `text`.

    Raises:
        ValueError: it is none, or nested too deeply.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error})") from error
