"""Secrets of this process never reach the disk."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["MARK", "Redactor"]

MARK = "<redacted>"
"""What stands in the place of a secret."""

_NAME = re.compile(
    r"password|passwd|passphrase|secret|credential|sshpass|token\d*(?:$|_)"
    r"|(?:^|_)(?:api_?key|access_?key|key|auth|pass|pat)\d*(?:$|_)",
    re.I,
)
_IN_URL = re.compile(r"://[^/@:\s]*:([^/@\s]+)@")
_MIN_CHARS = 6  # a shorter value is a word or a number that occurs everywhere


class Redactor:
    """Replaces the values of environment variables whose names say that they are secret, and passwords in URLs of any.

    Args:
        environ: where secrets are looked for; default: this process's environment, as it is now.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        secrets: set[str] = set()
        for name, value in (os.environ if environ is None else environ).items():
            secrets.update(_IN_URL.findall(value))
            if _NAME.search(name):
                secrets |= {part.strip() for part in (value, *value.splitlines())}
        longest_first = sorted((s for s in secrets if len(s) >= _MIN_CHARS), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    @classmethod
    def current(cls) -> Redactor:
        """One of this process's environment as it is now."""
        global _current
        environ = dict(os.environ)
        if _current is None or _current[0] != environ:
            _current = environ, cls(environ)
        return _current[1]

    def text(self, text: str) -> str:
        """`text` without secrets."""
        return self._pattern.sub(MARK, text) if self._pattern else text

    def data(self, data: Any) -> Any:
        """JSON-like data without secrets, keys included."""
        if self._pattern is None:
            return data
        if isinstance(data, str):
            return self.text(data)
        if isinstance(data, Mapping):
            return {self.data(key): self.data(value) for key, value in data.items()}
        if isinstance(data, list | tuple):
            return [self.data(item) for item in data]
        return data


_current: tuple[dict[str, str], Redactor] | None = None
