"""What makes a `Segment` well formed, in one place: the recorder, the rows and the audit all ask here."""

from __future__ import annotations

import math

from swe_plugin.types import Segment

__all__ = ["SPAN_KINDS", "last_sampled", "segment_faults"]

SPAN_KINDS = frozenset({"prompt", "sampled", "observation", "glue"})


def last_sampled(segment: Segment) -> int:
    """Index of the last id with mask 1, or -1."""
    for span in reversed(segment.spans):
        if span.kind == "sampled" and span.stop > span.start:
            return span.stop - 1
    return -1


def segment_faults(segment: Segment) -> list[str]:
    """Every rule of DESIGN "Tokens" that `segment` breaks by itself; empty when it is well formed.

    Checked: equal lengths; spans known, in order, covering [0, T); mask 1 exactly on sampled spans; log-prob
    0.0 and version -1 wherever mask is 0; finite log-probs; a prompt of `prompt_length` ids comes first.
    """
    total = len(segment.ids)
    faults = [
        f"{name} has {len(values)} entries, ids have {total}"
        for name, values in (
            ("mask", segment.mask),
            ("log_probs", segment.log_probs),
            ("weight_versions", segment.weight_versions),
        )
        if len(values) != total
    ]
    return faults or _span_faults(segment)


def _span_faults(segment: Segment) -> list[str]:
    faults: list[str] = []
    end = 0
    for span in segment.spans:
        where = f"span [{span.start}, {span.stop}) {span.kind}"
        if span.start != end or span.stop < span.start:
            faults.append(f"{where} does not follow on {end}")
        if span.kind not in SPAN_KINDS:
            faults.append(f"{where} is of unknown kind")
        faults += [f"{where}: {fault}" for fault in _value_faults(segment, span.start, span.stop, span.kind)]
        end = span.stop
    if end != len(segment.ids):
        faults.append(f"spans end at {end} of {len(segment.ids)} ids")
    first = segment.spans[0] if segment.spans else None
    if first and not (first.kind == "prompt" and 0 < first.stop == segment.prompt_length):
        faults.append(f"prompt_length {segment.prompt_length} is not that of a prompt at the start")
    return faults


def _value_faults(segment: Segment, start: int, stop: int, kind: str) -> list[str]:
    length = max(stop - start, 0)
    sampled = kind == "sampled"
    faults: list[str] = []
    if segment.mask[start:stop].count(int(sampled)) != length:
        faults.append(f"mask is not {int(sampled)} throughout")
    log_probs = segment.log_probs[start:stop]
    if sampled:
        if not all(map(math.isfinite, log_probs)):
            faults.append("a log-prob is not finite")
        return faults
    if log_probs.count(0.0) != length:
        faults.append("a log-prob is not 0.0")
    if segment.weight_versions[start:stop].count(-1) != length:
        faults.append("a weight version is not -1")
    return faults
