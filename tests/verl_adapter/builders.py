"""Rollout results and verl's own numbers, for the tests of this room."""

from __future__ import annotations

import numpy as np
import torch
import transfer_queue as tq
from verl.protocol import DataProto
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

from swe_plugin.types import AttemptFailure, Grade, Message, RolloutResult, Segment, Span, StopReason, Task

PROMPT = [1, 2, 3]


def segment(*turns: int, tail: int = 0, version: int = 4) -> Segment:
    """A prompt of three ids, then answers of the given lengths with an observation of two ids between each."""
    stream = Segment(prompt_length=len(PROMPT))

    def add(ids, kind, turn, mask, log_prob, step):
        start = len(stream.ids)
        stream.ids.extend(ids)
        stream.mask.extend([mask] * len(ids))
        stream.log_probs.extend([log_prob] * len(ids))
        stream.weight_versions.extend([step] * len(ids))
        stream.spans.append(Span(start, len(stream.ids), kind, turn))

    add(PROMPT, "prompt", 0, 0, 0.0, -1)
    for turn, length in enumerate(turns):
        if turn:
            add([8, 9], "observation", turn, 0, 0.0, -1)
        add([20 + turn] * length, "sampled", turn, 1, -0.5, version)
    if tail:
        add([7] * tail, "observation", len(turns), 0, 0.0, -1)
    return stream


def rollout(reward=1.0, *, session=0, segments=None, stop=StopReason.SUBMITTED, cause="") -> RolloutResult:
    """A result; a reward of None is a rollout that failed for `cause`."""
    result = RolloutResult(Task("demo-1", "fix it"), session, stop, reward=reward)
    result.segments = [segment(3, 2)] if segments is None else segments
    result.messages = [Message("system", "s"), Message("user", "u"), Message("assistant", "a")]
    result.timings = {"wait": 0.1, "start": 0.2, "generate": 1.0, "exec": 0.5, "total": 2.0}
    if reward is None:
        result.failures = [AttemptFailure("start", 1, cause or "EnvironmentStartError: no mount")]
    else:
        result.grade, result.patch = Grade(resolved=reward > 0), "diff"
        result.timings["grade"] = 0.3
    return result


def advantages(keys, partition="train", *, estimator="grpo"):
    """Advantage of each row as verl's trainer computes it from the queue: {(uid, session, segment): value}."""
    fields = ["uid", "response_mask", "rm_scores"]
    rows = tq.kv_batch_get(keys=list(keys), partition_id=partition, select_fields=fields)
    data = DataProto(batch=rows.to_padded_tensor())
    data.batch["token_level_rewards"] = data.batch["rm_scores"]
    data.non_tensor_batch["uid"] = np.array(data.batch.pop("uid").tolist(), dtype=object)
    data = compute_advantage_for_multi_trajectories(data, batch_keys=list(keys), adv_estimator=estimator)
    mask = data.batch["response_mask"].bool()
    values = {}
    for i, key in enumerate(keys):
        own = data.batch["advantages"][i][mask[i]]
        assert torch.all(own == own[:1])
        values[tuple(key.rsplit("_", 2))] = round(own.sum().item() / max(len(own), 1), 5)
    return values
