"""Directory names made of instance ids, which come from datasets and may hold anything."""

from __future__ import annotations

import hashlib
import re

__all__ = ["safe_name"]

_MAX_CHARS = 120
_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]")


def safe_name(text: str) -> str:
    """A single path component for `text`: itself where that is safe, else a readable form plus a hash of it.

    Different texts have different names, whatever was replaced.
    """
    name = _UNSAFE.sub("_", text)[:_MAX_CHARS].lstrip(".-")
    if name == text and name:
        return name
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:10]
    return f"{name or 'task'}-{digest}"
