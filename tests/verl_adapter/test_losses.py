"""verl's policy losses: which of them weigh a trajectory by the number of its segments."""

from __future__ import annotations

import pytest
import torch
from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY
from verl.workers.config import FSDPActorConfig, PolicyLossConfig

from swe_plugin.verl_adapter.checks.rules import ROW_LOSSES

LOSSES = sorted(POLICY_LOSS_REGISTRY)


def loss(mode: str, lengths: list[int], advantages: list[float]) -> float:
    """Of rows of so many sampled tokens, by weights that have not moved since."""
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).float()
    settings = PolicyLossConfig(loss_mode=mode, dro_beta=1.0)
    config = FSDPActorConfig(
        strategy="fsdp2", rollout_n=1, ppo_mini_batch_size=4, ppo_micro_batch_size_per_gpu=1, policy_loss=settings
    )
    config.global_batch_info.update(dp_size=1, batch_num_tokens=int(mask.sum()), global_batch_size=len(lengths))
    value, _ = POLICY_LOSS_REGISTRY[mode](
        old_log_prob=-mask,
        log_prob=-mask,
        advantages=torch.tensor(advantages)[:, None] * mask,
        response_mask=mask,
        loss_agg_mode="token-mean",
        config=config,
        rollout_is_weights=None,
    )
    return float(value)


@pytest.mark.parametrize("mode", LOSSES)
def test_a_trajectory_in_two_segments_weighs_as_in_one_or_the_loss_is_refused(mode):  # verl#7580
    whole = loss(mode, [8, 2], [1.0, -1.0])
    divided = loss(mode, [4, 4, 2], [1.0, 1.0, -1.0])
    assert (divided != pytest.approx(whole)) == (mode in ROW_LOSSES)
