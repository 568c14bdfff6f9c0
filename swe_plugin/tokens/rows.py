"""From segments to what a trainer takes: prompt ids, response ids and their lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from swe_plugin.errors import TokenStreamError
from swe_plugin.tokens.segments import last_sampled, segment_faults
from swe_plugin.types import Segment

__all__ = ["TokenRow", "training_rows"]


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One row to train on. The response lists have one length R >= 1 and end on a sampled token.

    Attributes:
        prompt_ids: ids of the opening prompt, length P.
        response_ids: sampled ids, observations and glue.
        response_mask: 1 on sampled ids.
        response_log_probs: log-probs as sampled; 0.0 where the mask is 0.
        versions: weight version of each id; -1 where the mask is 0.
        segment: index of the segment it was made from.
        routed_experts: the engine's routing record from position 0 on, or None.
    """

    prompt_ids: list[int]
    response_ids: list[int]
    response_mask: list[int]
    response_log_probs: list[float]
    versions: list[int]
    segment: int = 0
    routed_experts: Any = None

    @property
    def version_range(self) -> tuple[int, int]:
        """Oldest and newest weight version among the sampled ids."""
        sampled = {v for v, m in zip(self.versions, self.response_mask, strict=True) if m}
        return min(sampled), max(sampled)


def training_rows(segments: Sequence[Segment], max_prompt_length: int, max_response_length: int) -> list[TokenRow]:
    """Rows of one rollout, one per segment that has a sampled token, in order.

    A row ends on its last sampled token: what follows was never answered, and verl puts the reward on the
    last position. Nothing else is cut; a stream that is too long is a bug of the policy's budget.

    Args:
        segments: as recorded.
        max_prompt_length: largest P.
        max_response_length: largest R.

    Raises:
        TokenStreamError: a segment is malformed or does not fit.
    """
    rows: list[TokenRow] = []
    for index, segment in enumerate(segments):
        if faults := segment_faults(segment):
            raise TokenStreamError(f"segment {index}: {'; '.join(faults)}")
        if (last := last_sampled(segment)) < 0:
            continue
        cut = slice(segment.prompt_length, last + 1)
        row = TokenRow(
            prompt_ids=segment.ids[: segment.prompt_length].tolist(),
            response_ids=segment.ids[cut].tolist(),
            response_mask=segment.mask[cut].tolist(),
            response_log_probs=segment.log_probs[cut].tolist(),
            versions=segment.weight_versions[cut].tolist(),
            segment=index,
            routed_experts=segment.routed_experts,
        )
        for name, length, limit in (
            ("prompt", len(row.prompt_ids), max_prompt_length),
            ("response", len(row.response_ids), max_response_length),
        ):
            if length > limit:
                raise TokenStreamError(f"segment {index}: {name} of {length} ids exceeds the limit of {limit}")
        rows.append(row)
    return rows
