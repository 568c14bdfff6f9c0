"""The boundary to an inference server: token ids in, sampled token ids out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["Completion", "TokenServer"]


@dataclass(frozen=True, slots=True)
class Completion:
    """What an inference server sampled for one prompt. Lists have equal length.

    Attributes:
        token_ids: sampled ids, the end-of-turn id included where it was sampled.
        log_probs: natural log-probs of those ids.
        min_version, max_version: trainer steps of the weights used (differ if a resumed call spans a sync).
        aborted: the server gave the call up; the tokens must not be used.
        extra: engine extras such as ``routed_experts``.
    """

    token_ids: Sequence[int]
    log_probs: Sequence[float]
    min_version: int = -1
    max_version: int = -1
    aborted: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)


class TokenServer(Protocol):
    """Token in, token out: `verl_adapter` provides it on top of verl's server, tests by a script."""

    async def generate(self, request_id: str, prompt_ids: Sequence[int], *, max_tokens: int) -> Completion:
        """Sample up to `max_tokens` ids after `prompt_ids`.

        Args:
            request_id: one per rollout, so that a router can keep its turns on one server (prefix cache).

        Raises:
            PolicyError: the server failed.
        """
        ...
