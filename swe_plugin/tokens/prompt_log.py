"""`PromptLog`: prompts as what each adds to the call before it, and digests that hold them to it."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence

__all__ = ["PrefixDigest", "PromptLog", "first_difference", "prompt_digest"]


_CHUNK = 2044
"""Bytes hashed at once: `hashlib` gives the interpreter up for more, and the event loop would wait to get it back."""


class PrefixDigest:
    """Digest of a growing list of ids: linear in total, however many prefixes are asked for."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)

    def update(self, ids: Sequence[int]) -> None:
        """Append ids (each in 0..2^32-1)."""
        data = memoryview(array("I", ids)).cast("B")
        for start in range(0, len(data), _CHUNK):
            self._hash.update(data[start : start + _CHUNK])

    def hexdigest(self) -> str:
        """Digest of all ids so far."""
        return self._hash.hexdigest()


def prompt_digest(ids: Sequence[int]) -> str:
    """BLAKE2b-128 of the ids as native 32-bit words, in hex."""
    digest = PrefixDigest()
    digest.update(ids)
    return digest.hexdigest()


def first_difference(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the longest common prefix of two lists or two arrays; bisects with slices, which compare at the
    speed of C."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class PromptLog:
    """The context of the last call, kept by the writer and by the reader of a journal alike.

    A turn of an agent repeats the prompt before it and what was sampled there, so a call costs a journal only
    the ids of its observation: all prompts of a rollout take the space of its stream once.
    """

    def __init__(self) -> None:
        self._context = array("I")

    @property
    def length(self) -> int:
        """Ids of the last call's context."""
        return len(self._context)

    def shrink(self, prompt: array[int]) -> tuple[int, array[int]]:
        """How many ids `prompt` shares with the last call's context, and those that follow."""
        extends = prompt.tobytes().startswith(self._context)
        shared = len(self._context) if extends else first_difference(self._context, prompt)
        return shared, prompt[shared:]

    def expand(self, shared: int, new: Sequence[int]) -> array[int]:
        """Inverse of `shrink`.

        Raises:
            ValueError: the last call's context is shorter than `shared`.
        """
        if not 0 <= shared <= len(self._context):
            raise ValueError(f"repeats {shared} ids of a call that had {len(self._context)}")
        return self._context[:shared] + array("I", new)

    def answered(self, prompt: array[int], completion: Sequence[int], *, shared: int = 0) -> None:
        """The call is over; its prompt and what was sampled are what the next is told against.

        Args:
            prompt: ids sent.
            completion: ids received.
            shared: how many of the prompt's ids are known to be those of the context before.
        """
        del self._context[shared:]
        self._context += prompt[shared:]
        self._context.extend(completion)
