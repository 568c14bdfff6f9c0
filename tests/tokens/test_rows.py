"""training_rows: what a trainer is given."""

from __future__ import annotations

import pytest

from swe_plugin.errors import TokenStreamError
from swe_plugin.tokens import Completion, Piece, TokenRecorder, training_rows
from swe_plugin.types import Span


def record(*turns, prompt=(1, 2)):
    """A segment: a list is sampled, a tuple is context."""
    recorder = TokenRecorder()
    recorder.open(prompt)
    for turn in turns:
        if isinstance(turn, list):
            recorder.sample(Completion(turn, [-0.1] * len(turn), min_version=2, max_version=2))
        else:
            recorder.extend([Piece(turn)])
    return recorder.segments[0]


def test_a_row_ends_on_its_last_sampled_token():
    (row,) = training_rows([record([10, 11], (3,), [12], (4, 5))], 10, 10)
    assert (row.prompt_ids, row.response_ids) == ([1, 2], [10, 11, 3, 12])
    assert row.response_mask == [1, 1, 0, 1]
    assert row.response_log_probs == [-0.1, -0.1, 0.0, -0.1]
    assert row.versions == [2, 2, -1, 2]
    assert row.version_range == (2, 2)


def test_segments_without_a_sampled_token_give_no_row():
    rows = training_rows([record((3,)), record([]), record([10])], 10, 10)
    assert [row.segment for row in rows] == [2]


def test_an_empty_first_answer_leaves_the_prompt_as_it_was():
    (row,) = training_rows([record([], (3, 4), [10])], 2, 3)
    assert (row.prompt_ids, row.response_ids, row.response_mask) == ([1, 2], [3, 4, 10], [0, 0, 1])


@pytest.mark.parametrize(("prompt", "response", "what"), [(1, 9, "prompt"), (9, 2, "response")])
def test_a_row_that_does_not_fit_is_an_error_and_never_cut(prompt, response, what):
    with pytest.raises(TokenStreamError, match=f"{what} of"):
        training_rows([record([10, 11, 12])], prompt, response)


def test_rows_are_copies():
    segment = record([10])
    training_rows([segment], 10, 10)[0].response_ids.append(99)
    assert list(segment.ids) == [1, 2, 10]


def _unequal(segment):
    segment.log_probs.pop()


def _mask_on_context(segment):
    segment.mask[0] = 1


def _mask_off_sampled(segment):
    segment.mask[2] = 0


def _log_prob_on_context(segment):
    segment.log_probs[1] = -1.0


def _version_on_context(segment):
    segment.weight_versions[1] = 0


def _nan(segment):
    segment.log_probs[2] = float("nan")


def _gap(segment):
    segment.spans[1] = Span(3, 4, "sampled", 0)


def _short(segment):
    segment.spans.pop()


def _unknown(segment):
    segment.spans[0] = Span(0, 2, "header", 0)


def _no_prompt(segment):
    segment.prompt_length = 0


def _late_prompt(segment):
    segment.prompt_length = 3


@pytest.mark.parametrize(
    "spoil",
    [
        _unequal, _mask_on_context, _mask_off_sampled, _log_prob_on_context, _version_on_context, _nan, _gap, _short,
        _unknown, _no_prompt, _late_prompt,
    ],
)  # fmt: skip
def test_a_malformed_segment_is_refused(spoil):
    segment = record([10, 11], (3,))
    training_rows([segment], 10, 10)
    spoil(segment)
    with pytest.raises(TokenStreamError, match="segment 0"):
        training_rows([segment], 10, 10)
