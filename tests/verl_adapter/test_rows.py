"""Rows as verl stores them, judged by verl's own advantage code."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from verl.trainer.ppo.core_algos import compute_gae_advantage_return

from swe_plugin.errors import TokenStreamError
from swe_plugin.types import StopReason
from swe_plugin.verl_adapter.rows import RowLimits, failed_row, rollout_outputs

from .builders import rollout, segment

LIMITS = RowLimits(prompt_length=64, response_length=64)


def outputs(result, version=4):
    return rollout_outputs(result, LIMITS, version=version)


def test_a_row_ends_on_a_sampled_token():
    (row,) = outputs(rollout(1.0, segments=[segment(3, 2, tail=5)]))
    assert row.prompt_ids == [1, 2, 3]
    assert row.response_ids == [20, 20, 20, 8, 9, 21, 21]
    assert row.response_mask == [1, 1, 1, 0, 0, 1, 1]
    assert row.response_logprobs == [-0.5, -0.5, -0.5, 0.0, 0.0, -0.5, -0.5]
    assert row.as_dict()["rm_scores"].tolist() == [0, 0, 0, 0, 0, 0, 1]


def test_one_row_per_segment_all_with_the_reward_and_the_same_fields():
    rows = outputs(rollout(1.0, segments=[segment(2), segment(1, 1), segment()]))
    assert [len(row.response_ids) for row in rows] == [2, 4]  # the last one holds no sampled token: no row
    assert {row.reward_score for row in rows} == {1.0}
    assert rows[0].as_dict().keys() == rows[1].as_dict().keys()
    assert rows.member.segments == 2
    assert (rows.member.sampled_tokens, rows.member.context_tokens) == (4, 8)


def test_failed_rollouts_have_no_row():
    rows = outputs(rollout(None, stop=StopReason.ENVIRONMENT_LOST))
    assert rows == []
    assert rows.member.failed


def test_extra_fields_are_uniform_over_resolved_unresolved_and_failed_rows():
    fields = [
        outputs(rollout(1.0))[0].extra_fields,
        outputs(rollout(0.0))[0].extra_fields,
        failed_row(0, version=3).extra_fields,
    ]
    assert [field["reward_extra_info"] for field in fields] == [
        {"acc": 1.0, "failed": 0.0},
        {"acc": 0.0, "failed": 0.0},
        {"acc": 0.0, "failed": 1.0},
    ]
    assert len({tuple(field) for field in fields}) == 1
    assert failed_row(0, version=3).as_dict().keys() == outputs(rollout(1.0))[0].as_dict().keys()


@pytest.mark.parametrize(("recorded", "expected"), [(7, 7), (-1, 4)])
def test_weight_versions_are_always_integers(recorded, expected):
    (row,) = outputs(rollout(1.0, segments=[segment(2, version=recorded)]), version=4)
    assert row.extra_fields["min_global_steps"] == expected
    assert row.extra_fields["max_global_steps"] == expected


def test_a_row_that_does_not_fit_is_an_error_not_a_cut():
    with pytest.raises(TokenStreamError, match="exceeds"):
        rollout_outputs(rollout(1.0), RowLimits(prompt_length=64, response_length=2), version=0)


@given(
    turns=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    tail=st.integers(0, 5),
    reward=st.sampled_from([0.0, 0.25, 1.0]),
    seed=st.integers(0, 1000),
)
def test_the_return_at_every_sampled_token_is_the_reward(turns, tail, reward, seed):
    """PPO with gamma = lambda = 1. A row that ended on an observation would lose its reward: GAE skips it."""
    (row,) = outputs(rollout(reward, segments=[segment(*turns, tail=tail)]))
    fields = row.as_dict()
    mask = torch.stack([fields["response_mask"].float()] * 2)  # two rows: verl whitens over the batch
    rewards = torch.stack([fields["rm_scores"]] * 2)
    values = torch.randn(mask.shape, generator=torch.Generator().manual_seed(seed)) * mask
    _, returns = compute_gae_advantage_return(rewards, values, mask, 1.0, 1.0)
    assert torch.allclose(returns[mask.bool()], torch.tensor(reward), atol=1e-5)
    assert mask[0, -1] == 1


def test_the_reward_is_lost_where_a_row_ends_on_an_observation():
    """The trap itself, so that the test above cannot pass for another reason."""
    mask = torch.tensor([[1.0, 1.0, 0.0]])
    rewards, values = torch.tensor([[0.0, 0.0, 1.0]]), torch.zeros(1, 3)
    _, returns = compute_gae_advantage_return(rewards, values, mask, 1.0, 1.0)
    assert torch.all(returns[mask.bool()] == 0.0)
