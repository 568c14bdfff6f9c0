"""TokenRecorder: the stream is append-only and says exactly what was sampled."""

from __future__ import annotations

import math

import pytest

from swe_plugin.errors import TokenStreamError
from swe_plugin.tokens import Completion, Piece, TokenRecorder, segment_faults
from swe_plugin.types import Span


def completion(*ids, **kwargs):
    return Completion(ids, [-0.5] * len(ids), **kwargs)


def test_the_whole_of_a_two_turn_stream():
    recorder = TokenRecorder()
    recorder.open([1, 2, 3])
    recorder.sample(completion(10, 11, min_version=7, max_version=7))
    recorder.extend([Piece([4], "glue"), Piece([5, 6], "observation"), Piece([], "glue")])
    recorder.sample(completion(12, min_version=8, max_version=8))
    (segment,) = recorder.segments
    assert list(segment.ids) == [1, 2, 3, 10, 11, 4, 5, 6, 12]
    assert list(segment.mask) == [0, 0, 0, 1, 1, 0, 0, 0, 1]
    assert list(segment.log_probs) == [0.0, 0.0, 0.0, -0.5, -0.5, 0.0, 0.0, 0.0, -0.5]
    assert list(segment.weight_versions) == [-1, -1, -1, 7, 7, -1, -1, -1, 8]
    assert segment.spans == [
        Span(0, 3, "prompt", 0),
        Span(3, 5, "sampled", 0),
        Span(5, 6, "glue", 1),
        Span(6, 8, "observation", 1),
        Span(8, 9, "sampled", 1),
    ]
    assert (segment.prompt_length, recorder.response_length, recorder.turn) == (3, 6, 2)
    assert segment_faults(segment) == []


def test_a_completion_over_a_weight_sync_gets_its_versions_or_the_oldest():
    recorder = TokenRecorder()
    recorder.open([1])
    recorder.sample(completion(10, 11, min_version=3, max_version=4))
    recorder.sample(completion(12, 13, min_version=3, max_version=4, extra={"versions": [3, 4]}))
    assert list(recorder.segments[0].weight_versions) == [-1, 3, 3, 3, 4]


def test_experts_cover_the_stream_and_nothing_that_was_taken_back():
    recorder = TokenRecorder()
    recorder.open([1, 2])
    recorder.sample(completion(10, 11, extra={"routed_experts": [["e1"], ["e2"], ["e10"]]}))  # the last has none yet
    recorder.extend([Piece([3])])
    recorder.sample(completion(12, extra={"routed_experts": [["e1"], ["e2"], ["e10"], ["e11"], ["e3"], ["e12"]]}))
    assert recorder.segments[0].routed_experts == [["e1"], ["e2"], ["e10"], ["e11"], ["e3"], ["e12"]]
    recorder.retract()
    recorder.sample(completion())  # no answer, no experts
    assert recorder.segments[0].routed_experts == [["e1"], ["e2"], ["e10"], ["e11"], ["e3"]]
    recorder.open([5])
    recorder.sample(completion(13))
    assert recorder.segments[1].routed_experts is None


def test_an_empty_completion_is_an_event_and_no_token():
    recorder = TokenRecorder()
    recorder.open([1, 2])
    recorder.sample(completion())
    assert list(recorder.ids) == [1, 2]
    assert [(e.kind, e.turn) for e in recorder.events] == [("empty", 0)]
    assert recorder.turn == 1


def test_an_aborted_completion_is_refused():
    recorder = TokenRecorder()
    recorder.open([1])
    with pytest.raises(TokenStreamError, match="aborted"):
        recorder.sample(completion(10, aborted=True))
    assert list(recorder.ids) == [1]


@pytest.mark.parametrize(
    "bad",
    [
        Completion([1, 2], [-0.1]),
        Completion([1], [math.nan]),
        Completion([1], [-math.inf]),
        Completion([1, 2], [-0.1, -0.1], extra={"versions": [1]}),
        Completion([1, -2], [-0.1, -0.1]),
        Completion([1, "2"], [-0.1, -0.1]),
    ],
)
def test_a_completion_whose_lists_do_not_fit_is_refused_whole(bad):
    recorder = TokenRecorder()
    recorder.open([9])
    with pytest.raises(TokenStreamError):
        recorder.sample(bad)
    assert list(recorder.ids) == [9]
    assert segment_faults(recorder.segments[0]) == []


def test_a_retracted_answer_leaves_no_trace_but_an_event():
    recorder = TokenRecorder()
    recorder.open([1])
    recorder.sample(completion(10))
    recorder.retract()
    recorder.sample(completion(11))
    assert list(recorder.ids) == [1, 11]
    assert [(e.kind, e.turn) for e in recorder.events] == [("superseded", 0)]
    assert recorder.turn == 1


def test_only_the_last_answer_can_be_retracted_and_only_once():
    recorder = TokenRecorder()
    recorder.open([1])
    with pytest.raises(TokenStreamError):
        recorder.retract()
    recorder.sample(completion(10))
    recorder.extend([Piece([2])])
    with pytest.raises(TokenStreamError):
        recorder.retract()
    recorder.sample(completion())
    recorder.retract()
    assert list(recorder.ids) == [1, 10, 2]
    with pytest.raises(TokenStreamError):
        recorder.retract()


def test_nothing_happens_before_a_segment_is_open():
    for act in (
        lambda r: r.ids,
        lambda r: r.extend([Piece([1])]),
        lambda r: r.sample(completion(1)),
        lambda r: r.open([]),
    ):
        with pytest.raises(TokenStreamError):
            act(TokenRecorder())


def test_context_cannot_pose_as_sampled():
    recorder = TokenRecorder()
    recorder.open([1])
    with pytest.raises(TokenStreamError, match="sampled"):
        recorder.extend([Piece([2], "sampled")])


def test_a_second_segment_is_an_event_and_turns_go_on_counting():
    recorder = TokenRecorder()
    recorder.open([1])
    recorder.sample(completion(10))
    recorder.open([1, 2])
    recorder.sample(completion(11))
    assert [list(s.ids) for s in recorder.segments] == [[1, 10], [1, 2, 11]]
    assert recorder.segments[1].spans[-1].turn == 1
    assert [e.kind for e in recorder.events] == ["segment"]


def test_routing_records_come_from_the_last_call():
    recorder = TokenRecorder()
    recorder.open([1])
    recorder.sample(completion(10, extra={"routed_experts": "first"}))
    recorder.sample(completion(11, extra={"routed_experts": "both"}))
    recorder.sample(completion(12))
    assert recorder.segments[0].routed_experts == "both"
