"""`audit_segments`: proves that each trained token was sampled in exactly the context it is trained in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from swe_plugin.tokens.journal import JournalRecord, PrefixDigest
from swe_plugin.tokens.segments import last_sampled, segment_faults
from swe_plugin.types import Segment, Span

__all__ = ["AuditReport", "Violation", "audit_segments"]


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule.

    Attributes:
        kind: ``malformed``, ``never_sampled``, ``wrong_context``, ``wrong_ids``, ``wrong_log_probs``,
            ``wrong_version``, ``unknown_version``, ``aborted`` or ``trained_twice``.
        segment: index of the segment.
        start: position of the first id concerned, or -1 for the whole segment.
        detail: for the reader.
    """

    kind: str
    segment: int
    start: int
    detail: str


@dataclass(slots=True)
class AuditReport:
    """What the audit of one rollout found.

    Attributes:
        violations: empty when every trained token is proved.
        n_tokens: ids in all segments.
        n_trained: ids with mask 1.
        n_trailing: ids after the last sampled one, which no row contains.
        n_calls: journal records.
        unconsumed: completions with ids that no segment contains: superseded, aborted or cut off.
    """

    violations: list[Violation] = field(default_factory=list)
    n_tokens: int = 0
    n_trained: int = 0
    n_trailing: int = 0
    n_calls: int = 0
    unconsumed: list[JournalRecord] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """No rule is broken."""
        return not self.violations


class _Calls:
    """Journal records by the prompt they answered; each can be taken once."""

    def __init__(self, records: Iterable[JournalRecord]) -> None:
        self.all = list(records)
        self.taken = [False] * len(self.all)
        self.by_prompt: dict[tuple[int, str], list[int]] = defaultdict(list)
        for index, record in enumerate(self.all):
            self.by_prompt[record.prompt_length, record.prompt_digest].append(index)
        self.contents: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for index, record in enumerate(self.all):
            self.contents[tuple(record.completion_ids)].append(index)


def audit_segments(segments: Sequence[Segment], records: Iterable[JournalRecord]) -> AuditReport:
    """Compare the segments of one rollout with the journal of its calls. Linear in ids.

    Args:
        segments: as recorded.
        records: the journal of the same rollout (others may be mixed in).
    """
    calls = _Calls(records)
    report = AuditReport(n_calls=len(calls.all))
    for index, segment in enumerate(segments):
        report.n_tokens += len(segment.ids)
        faults = segment_faults(segment)
        report.violations += [Violation("malformed", index, -1, fault) for fault in faults]
        if faults:
            continue
        report.n_trailing += len(segment.ids) - 1 - last_sampled(segment)
        context = PrefixDigest()
        for span in segment.spans:
            if span.kind == "sampled":
                report.n_trained += span.stop - span.start
                if found := _audit_span(segment, span, context.hexdigest(), calls):
                    report.violations.append(Violation(found[0], index, span.start, found[1]))
            context.update(segment.ids[span.start : span.stop])
    report.unconsumed = [r for r, taken in zip(calls.all, calls.taken, strict=True) if r.completion_ids and not taken]
    return report


def _audit_span(segment: Segment, span: Span, context: str, calls: _Calls) -> tuple[str, str] | None:
    """Kind and detail of the first rule that a sampled span breaks, or None. Marks the call as consumed."""
    here = slice(span.start, span.stop)
    ids = segment.ids[here]
    same_prompt = calls.by_prompt.get((span.start, context), [])
    candidates = [i for i in same_prompt if list(calls.all[i].completion_ids) == ids]
    if not candidates:
        if same_prompt:
            return "wrong_ids", f"turn {span.turn}: the server answered this context with other ids"
        if calls.contents.get(tuple(ids)):
            return "wrong_context", f"turn {span.turn}: sampled, but after another prompt"
        return "never_sampled", f"turn {span.turn}: the journal has no call with this prompt or these ids"
    free = [i for i in candidates if not calls.taken[i]]
    if not free:
        return "trained_twice", f"turn {span.turn}: its only completion is used by another span"
    exact = [i for i in free if list(calls.all[i].log_probs) == segment.log_probs[here]]
    chosen = min(exact or free, key=lambda i: calls.all[i].aborted)
    calls.taken[chosen] = True
    record = calls.all[chosen]
    if record.aborted or record.error:
        return "aborted", f"turn {span.turn}: taken from a call that the server gave up"
    if not exact:
        return "wrong_log_probs", f"turn {span.turn}: log-probs differ from those sampled"
    versions = segment.weight_versions[here]
    if min(versions) < 0:
        return "unknown_version", f"turn {span.turn}: sampled by unknown weights"
    if not record.min_version <= min(versions) <= max(versions) <= record.max_version:
        return "wrong_version", f"turn {span.turn}: {min(versions)}..{max(versions)} is not what the server reported"
    return None
