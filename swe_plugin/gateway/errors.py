"""`ApiError`: what a client is told, in OpenAI's shape."""

from __future__ import annotations

from typing import Any

__all__ = ["ApiError"]


_MAX_CHARS = 1000


class ApiError(Exception):
    """A refused request.

    Args:
        status: of HTTP.
        message: for whoever reads the client's log; cut, since it may quote what a client sent.
        code: OpenAI's word for it, e.g. ``context_length_exceeded``.
        param: the parameter that is wrong, or empty.
        again: the same request may succeed later; otherwise clients are told not to repeat it.
    """

    def __init__(self, status: int, message: str, code: str, *, param: str = "", again: bool = False) -> None:
        self.status, self.message, self.code, self.again = status, message[:_MAX_CHARS], code, again
        self.param = param[:_MAX_CHARS]
        super().__init__(f"{status} {code}: {self.message}")

    @property
    def body(self) -> dict[str, Any]:
        """The response's JSON."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": self.message, "type": kind, "param": self.param or None, "code": self.code}}

    @property
    def headers(self) -> dict[str, str]:
        """OpenAI's clients repeat what fails with 408, 409, 429 or 5xx, unless they are told otherwise."""
        return {"x-should-retry": "true", "retry-after": "1"} if self.again else {"x-should-retry": "false"}
