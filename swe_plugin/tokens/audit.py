"""`audit_segments`: proves that each trained token was sampled in exactly the context it is trained in."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from swe_plugin.tokens.journal import JournalRecord
from swe_plugin.tokens.journal_check import journal_faults, prompts_of
from swe_plugin.tokens.prompt_log import PrefixDigest, first_difference
from swe_plugin.tokens.segments import last_sampled, segment_faults
from swe_plugin.types import Segment, Span

__all__ = ["AuditReport", "Violation", "audit_segments"]


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule.

    Attributes:
        kind: ``malformed``, ``never_sampled``, ``wrong_context``, ``wrong_ids``, ``wrong_log_probs``,
            ``wrong_version``, ``unknown_version``, ``aborted``, ``other_request`` or ``trained_twice`` (of a segment);
            ``unconsumed`` (an answer that the rollout went on from is in no segment) or ``journal`` (the journal
            contradicts itself).
        segment: index of the segment, or -1.
        start: position of the first id concerned, or -1 for the whole segment; of the last two kinds, the index
            of the call.
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
        n_consumed: of these, those whose answer is in a segment.
        unconsumed: completions with ids that no segment contains.
        n_superseded: of these, those that were asked for again.
        n_aborted: of these, those that the server gave up.
        n_other_requests: of these, those of earlier attempts at the rollout.
    """

    violations: list[Violation] = field(default_factory=list)
    n_tokens: int = 0
    n_trained: int = 0
    n_trailing: int = 0
    n_calls: int = 0
    n_consumed: int = 0
    unconsumed: list[JournalRecord] = field(default_factory=list)
    n_superseded: int = 0
    n_aborted: int = 0
    n_other_requests: int = 0

    @property
    def ok(self) -> bool:
        """No rule is broken."""
        return not self.violations


class _Calls:
    """Journal records by the prompt they answered; each can be taken once."""

    def __init__(self, records: Iterable[JournalRecord], request_id: str) -> None:
        self.all, self.request_id = list(records), request_id
        self.taken = [False] * len(self.all)
        self.blamed: set[int] = set()
        self.by_prompt: dict[tuple[int, str], list[int]] = defaultdict(list)
        self.contents: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for index, record in enumerate(self.all):
            self.by_prompt[record.prompt_length, record.prompt_digest].append(index)
            self.contents[tuple(record.completion_ids)].append(index)

    def is_own(self, index: int) -> bool:
        return not self.request_id or self.all[index].request_id == self.request_id

    def superseded(self, index: int) -> bool:
        """The same prompt was sent again later, in the same attempt."""
        record = self.all[index]
        same = self.by_prompt[record.prompt_length, record.prompt_digest]
        return any(other > index and self.all[other].request_id == record.request_id for other in same)


def audit_segments(
    segments: Sequence[Segment], records: Iterable[JournalRecord], *, request_id: str = ""
) -> AuditReport:
    """Compare the segments of one rollout with the journal of its calls.

    One pass over the ids, and one hash of each call's prompt.

    Args:
        segments: as recorded.
        records: the journal of the same rollout, its earlier attempts included.
        request_id: of the attempt that the segments belong to; empty if there was only one.
    """
    calls = _Calls(records, request_id)
    report = AuditReport(n_calls=len(calls.all))
    report.violations += [Violation("journal", -1, i, f"call {i}: {fault}") for i, fault in journal_faults(calls.all)]
    malformed = False
    for index, segment in enumerate(segments):
        report.n_tokens += len(segment.ids)
        faults = segment_faults(segment)
        report.violations += [Violation("malformed", index, -1, fault) for fault in faults]
        if faults:
            malformed = True
            continue
        report.n_trailing += len(segment.ids) - 1 - last_sampled(segment)
        context = PrefixDigest()
        for span in segment.spans:
            if span.kind == "sampled":
                report.n_trained += span.stop - span.start
                if found := _audit_span(segment, span, context.hexdigest(), calls):
                    report.violations.append(Violation(found[0], index, span.start, f"turn {span.turn}: {found[1]}"))
            context.update(segment.ids[span.start : span.stop])
    _audit_unconsumed(report, calls, malformed=malformed)
    report.n_consumed = sum(calls.taken)
    return report


def _audit_span(segment: Segment, span: Span, context: str, calls: _Calls) -> tuple[str, str] | None:
    """Kind and detail of the first rule that a sampled span breaks, or None. Marks the call as consumed."""
    ids = segment.ids[span.start : span.stop].tolist()
    same_prompt = calls.by_prompt.get((span.start, context), [])
    candidates = [i for i in same_prompt if list(calls.all[i].completion_ids) == ids]
    if not candidates:
        if same_prompt:
            calls.blamed.update(same_prompt)
            return "wrong_ids", "the server answered this context with other ids"
        if same_answer := calls.contents.get(tuple(ids)):
            calls.blamed.update(same_answer)
            return "wrong_context", _where_contexts_differ(segment.ids[: span.start], calls.all, same_answer)
        return "never_sampled", "the journal has no call with this prompt or these ids"
    own = [i for i in candidates if calls.is_own(i)]
    if not own:
        return "other_request", f"sampled in request {calls.all[candidates[0]].request_id}, not in {calls.request_id}"
    free = [i for i in own if not calls.taken[i]]
    if not free:
        return "trained_twice", "its only completion is used by another span"
    log_probs = segment.log_probs[span.start : span.stop].tolist()
    exact = [i for i in free if list(calls.all[i].log_probs) == log_probs]
    chosen = min(exact or free, key=lambda i: calls.all[i].aborted)
    calls.taken[chosen] = True
    if calls.all[chosen].aborted or calls.all[chosen].error:
        return "aborted", "taken from a call that the server gave up"
    if not exact:
        return "wrong_log_probs", "log-probs differ from those sampled"
    return _audit_versions(segment.weight_versions[span.start : span.stop], calls.all[chosen])


def _audit_versions(versions: Sequence[int], record: JournalRecord) -> tuple[str, str] | None:
    if min(versions) < 0:
        return "unknown_version", "sampled by unknown weights"
    if list(versions) != (list(record.versions) or [record.min_version] * len(versions)):
        return "wrong_version", f"{min(versions)}..{max(versions)} is not what the server reported"
    return None


def _audit_unconsumed(report: AuditReport, calls: _Calls, *, malformed: bool) -> None:
    """Every answer is in a segment, was given up, or was asked for again."""
    for index, record in enumerate(calls.all):
        if calls.taken[index] or not record.completion_ids:
            continue
        report.unconsumed.append(record)
        if not calls.is_own(index):
            report.n_other_requests += 1
        elif record.aborted or record.error:
            report.n_aborted += 1
        elif calls.superseded(index):
            report.n_superseded += 1
        elif not malformed and index not in calls.blamed:
            detail = f"call {index}: its {len(record.completion_ids)} ids are in no segment"
            report.violations.append(Violation("unconsumed", -1, index, detail))


def _where_contexts_differ(context: array[int], records: Sequence[JournalRecord], indices: Sequence[int]) -> str:
    """Where a trained context leaves the prompt that the same answer was sampled after."""
    wanted = set(indices)
    prompts = [p for i, p in enumerate(islice(prompts_of(records), max(indices) + 1)) if i in wanted and p is not None]
    if not prompts:
        return "sampled, but after another prompt"
    prompt = max(prompts, key=lambda ids: first_difference(ids, context))
    at = first_difference(prompt, context)
    sent, trained = (str(ids[at]) if at < len(ids) else "nothing" for ids in (prompt, context))
    return f"sampled, but after another prompt: at position {at} the server saw {sent}, the row has {trained}"
