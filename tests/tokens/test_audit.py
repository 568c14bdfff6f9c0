"""audit_segments: every way in which a stream can be wrong is seen."""

from __future__ import annotations

import copy
import dataclasses

import pytest

from swe_plugin.policies import Answer, ScriptedTokenServer, TokenLimits, TokenPolicy
from swe_plugin.tokens import audit_segments
from swe_plugin.tokens.renderers.bytes import ByteRenderer
from swe_plugin.types import Message, Span

RENDERER = ByteRenderer()


@pytest.fixture
async def rollout():
    """Segments and journal of three turns, an aborted call among them."""
    script = [Answer("ls", versions=(4, 4)), Answer("x", aborted=True), Answer("cat", versions=(4, 5)), "cat"]
    server = ScriptedTokenServer(RENDERER.encode, RENDERER.END, script)
    policy = TokenPolicy(RENDERER, server, TokenLimits(4096), backoff_s=0.0)
    history = [Message("user", "fix it")]
    for text in ("a.py", "text", None):
        history.append((await policy.respond(history)).message)
        history.append(Message("user", text or ""))
    return copy.deepcopy(list(policy.segments)), list(policy.journal.records)


def kinds(segments, records):
    return {v.kind for v in audit_segments(segments, records).violations}


def sampled(segment, turn):
    return next(s for s in segment.spans if s.kind == "sampled" and s.turn == turn)


async def test_an_honest_rollout_is_proved(rollout):
    segments, records = rollout
    report = audit_segments(segments, records)
    assert report.ok
    assert (report.n_trained, report.n_calls, report.n_trailing) == (11, 4, 0)
    assert [r.aborted for r in report.unconsumed] == [True]


async def test_a_changed_sampled_id(rollout):
    segments, records = rollout
    segments[0].ids[sampled(segments[0], 0).start] += 1
    # the id itself, and the context of what follows
    assert kinds(segments, records) == {"wrong_ids", "wrong_context"}


async def test_a_changed_context_id(rollout):
    segments, records = rollout
    segments[0].ids[sampled(segments[0], 1).start - 1] += 1
    assert "wrong_context" in kinds(segments, records)


async def test_a_changed_prompt_id(rollout):
    segments, records = rollout
    segments[0].ids[0] = 5
    assert kinds(segments, records) == {"wrong_context"}


async def test_a_dropped_separator(rollout):
    segments, records = rollout
    segment, at = segments[0], sampled(segments[0], 0).stop
    for values in (segment.ids, segment.mask, segment.log_probs, segment.weight_versions):
        del values[at]
    segment.spans[2:] = [
        dataclasses.replace(s, start=s.start - (s.start > at), stop=s.stop - 1) for s in segment.spans[2:]
    ]
    assert "wrong_context" in kinds(segments, records)


async def test_a_span_that_nobody_sampled(rollout):
    segments, records = rollout
    segment = segments[0]
    segment.ids.extend([7, 7])
    segment.mask.extend([1, 1])
    segment.log_probs.extend([-1.0, -1.0])
    segment.weight_versions.extend([4, 4])
    segment.spans.append(Span(len(segment.ids) - 2, len(segment.ids), "sampled", 3))
    assert kinds(segments, records) == {"never_sampled"}


async def test_a_mask_on_a_header(rollout):
    segments, records = rollout
    segments[0].mask[0] = 1
    assert kinds(segments, records) == {"malformed"}


async def test_a_header_that_poses_as_sampled(rollout):
    segments, records = rollout
    segment, span = segments[0], sampled(segments[0], 1)
    at = segment.spans.index(span)
    segment.spans[at] = dataclasses.replace(span, start=span.start - 1)
    segment.spans[at - 1] = dataclasses.replace(segment.spans[at - 1], stop=span.start - 1)
    segment.mask[span.start - 1] = 1
    assert "never_sampled" in kinds(segments, records)


async def test_other_log_probs(rollout):
    segments, records = rollout
    segments[0].log_probs[sampled(segments[0], 2).start] -= 0.01
    assert kinds(segments, records) == {"wrong_log_probs"}


@pytest.mark.parametrize(("version", "kind"), [(3, "wrong_version"), (9, "wrong_version"), (-1, "unknown_version")])
async def test_other_weight_versions(rollout, version, kind):
    segments, records = rollout
    span = sampled(segments[0], 1)
    for at in range(span.start, span.stop):
        segments[0].weight_versions[at] = version
    assert kinds(segments, records) == {kind}


async def test_a_segment_trained_twice(rollout):
    segments, records = rollout
    assert kinds([*segments, segments[0]], records) == {"trained_twice"}


async def test_a_call_that_is_missing_in_the_journal(rollout):
    segments, records = rollout
    assert kinds(segments, records[1:]) == {"never_sampled", "journal"}  # and what came after builds on it


async def test_tokens_of_an_aborted_call(rollout):
    segments, records = rollout
    records[0] = dataclasses.replace(records[0], aborted=True)
    assert kinds(segments, records) == {"aborted"}


async def test_a_completion_cut_short_in_the_stream(rollout):
    segments, records = rollout
    segment = segments[0]
    for values in (segment.ids, segment.mask, segment.log_probs, segment.weight_versions):
        values.pop()
    segment.spans[-1] = dataclasses.replace(segment.spans[-1], stop=len(segment.ids))
    assert kinds(segments, records) == {"wrong_ids"}


async def test_tokens_after_the_last_answer_are_counted(rollout):
    segments, records = rollout
    segment = segments[0]
    segment.ids.append(1)
    segment.mask.append(0)
    segment.log_probs.append(0.0)
    segment.weight_versions.append(-1)
    segment.spans.append(Span(len(segment.ids) - 1, len(segment.ids), "glue", 3))
    report = audit_segments(segments, records)
    assert (report.ok, report.n_trailing) == (True, 1)


async def test_an_answer_that_no_segment_has(rollout):
    segments, records = rollout
    segment, start = segments[0], sampled(segments[0], 2).start
    for values in (segment.ids, segment.mask, segment.log_probs, segment.weight_versions):
        del values[start:]
    segment.spans.pop()
    assert kinds(segments, records) == {"unconsumed"}


async def test_a_wrong_context_is_told_to_the_position(rollout):
    segments, records = rollout
    at = sampled(segments[0], 1).start - 1
    segments[0].ids[at] = 77
    first = audit_segments(segments, records).violations[0]
    assert first.kind == "wrong_context"
    newline = 10  # ends the header of the assistant's turn
    assert f"at position {at} the server saw {newline}, the row has 77" in first.detail


async def test_answers_of_an_earlier_attempt_are_neither_trained_nor_missed(rollout):
    segments, records = rollout
    report = audit_segments(segments, records, request_id=records[0].request_id)
    assert report.ok
    before = [dataclasses.replace(r, request_id="earlier") for r in records]
    report = audit_segments(segments, [*before, *records], request_id=records[0].request_id)
    assert {v.kind for v in report.violations} <= {"journal"}  # two journals in one: differences lead nowhere
    assert (report.n_other_requests, report.n_aborted, report.n_consumed) == (4, 1, 3)
    assert {v.kind for v in audit_segments(segments, before, request_id="now").violations} == {"other_request"}


async def test_versions_within_one_answer_are_proved_one_by_one():
    answer = Answer(ids=[65, 66, RENDERER.END], versions=(4, 5))

    class Server(ScriptedTokenServer):
        async def generate(self, *args, **kwargs):
            return dataclasses.replace(await super().generate(*args, **kwargs), extra={"versions": [4, 5, 5]})

    policy = TokenPolicy(RENDERER, Server(RENDERER.encode, RENDERER.END, [answer]), TokenLimits(4096))
    await policy.respond([Message("user", "fix it")])
    segments, records = copy.deepcopy(list(policy.segments)), policy.journal.records
    assert audit_segments(segments, records).ok
    segments[0].weight_versions[-2] = 4  # within the range, but not what sampled it
    assert kinds(segments, records) == {"wrong_version"}
