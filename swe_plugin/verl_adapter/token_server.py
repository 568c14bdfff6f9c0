"""`VerlTokenServer`: verl's client to its inference servers as a `TokenServer`.

verl's asynchronous client hides that a call was aborted by a weight sync and resumed: it merges the pieces and
reports the oldest and newest version only. `attempt_recording` puts a recorder *below* that loop, so that
every piece, and with it the weight version of every token, is known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from verl.workers.rollout.llm_server import FullyAsyncLLMServerClient, LLMServerClient

from swe_plugin.errors import PolicyError
from swe_plugin.tokens.prompt_log import prompt_digest
from swe_plugin.tokens.server import Completion

__all__ = ["VerlTokenServer", "attempt_recording"]

_pieces: ContextVar[list[tuple[int, int]] | None] = ContextVar("swe_plugin_call_pieces", default=None)
"""(sampled ids, weight version or -1) of each piece of the call that the current task is making."""


class _RecordingClient(LLMServerClient):  # type: ignore[misc]
    """Notes the size and weight version of each answer of a server."""

    async def generate(self, request_id: str, **kwargs: Any) -> Any:
        """As verl's, one server call."""
        output = await super().generate(request_id, **kwargs)
        pieces = _pieces.get()
        if pieces is not None:
            pieces.append((len(output.token_ids), _version(output.extra_fields.get("global_steps"))))
        return output


class _RecordingAsyncClient(FullyAsyncLLMServerClient, _RecordingClient):  # type: ignore[misc]
    """verl's resume loop on top of the recorder: its ``super().generate`` is `_RecordingClient.generate`."""


_VARIANTS = {LLMServerClient: _RecordingClient, FullyAsyncLLMServerClient: _RecordingAsyncClient}


def attempt_recording(client: Any) -> Any:
    """The same client with a recorder below its resume loop; a client of any other class as it is."""
    variant = _VARIANTS.get(type(client))
    if variant is None:
        return client
    recording = object.__new__(variant)
    recording.__dict__.update(client.__dict__)
    return recording


class VerlTokenServer:
    """One per rollout, over the process's client.

    Args:
        client: verl's client, or anything with its `generate`.
        sampling_params: as verl gives them to the agent loop, in vLLM's words.
        seed: makes an answer depend on this, the prompt and the weights alone, whatever runs beside it; None leaves
            chance to the server.
    """

    def __init__(self, client: Any, sampling_params: Mapping[str, Any], *, seed: str | None = None) -> None:
        self._client, self._seed = client, seed
        self._sampling_params = {**sampling_params, "logprobs": True}

    async def generate(self, request_id: str, prompt_ids: Sequence[int], *, max_tokens: int) -> Completion:
        """One call of the servers, resumed by verl's client where a weight sync interrupts it.

        Raises:
            PolicyError: it failed, whatever verl or Ray raised.
        """
        pieces: list[tuple[int, int]] = []
        token = _pieces.set(pieces)
        try:
            output = await self._client.generate(
                request_id,
                prompt_ids=list(prompt_ids),
                sampling_params={**self._sampling_params, **self._seeded(prompt_ids), "max_tokens": max_tokens},
            )
        except Exception as error:
            raise PolicyError(f"inference server: {type(error).__name__}: {error}") from error
        finally:
            _pieces.reset(token)
        return _completion(output, pieces)

    def _seeded(self, prompt_ids: Sequence[int]) -> dict[str, int]:
        if self._seed is None:
            return {}
        digest = hashlib.sha256(f"{self._seed} {prompt_digest(prompt_ids)}".encode()).digest()
        return {"seed": int.from_bytes(digest[:4])}


def _completion(output: Any, pieces: Sequence[tuple[int, int]]) -> Completion:
    ids = list(output.token_ids)
    extra: dict[str, Any] = {}
    versions = [version for count, version in pieces for _ in range(count)]
    if len(versions) == len(ids):
        extra["versions"] = versions
    if output.routed_experts is not None:
        extra["routed_experts"] = output.routed_experts
    return Completion(
        token_ids=ids,
        log_probs=list(output.log_probs or []),
        min_version=_version(output.extra_fields.get("min_global_steps")),
        max_version=_version(output.extra_fields.get("max_global_steps")),
        aborted=output.stop_reason in ("aborted", "abort"),
        extra=extra,
    )


def _version(step: Any) -> int:
    return -1 if step is None else int(step)
