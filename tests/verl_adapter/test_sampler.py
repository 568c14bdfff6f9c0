"""Our replay buffer over a real queue: order, metrics, brake, and the settings verl would not pass on."""

import pytest
import torch
from omegaconf import OmegaConf
from verl.utils.import_utils import load_extern_type
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from swe_plugin.errors import ConfigError, TooManyFailures
from swe_plugin.verl_adapter.checks import SAMPLER
from swe_plugin.verl_adapter.members import Member, crashed_member
from swe_plugin.verl_adapter.sampler import SweReplayBuffer, SweReplayBufferAsync

SETTINGS = {
    "breaker_failures": 32,
    "rollout_n": 2,
    "mini_batch_size": 2,
    "train_batch_size": 2,
    "gen_batch_size": None,
    "poll_interval_s": 0.01,
}


def buffer(mode="sync", refill=None, **settings):
    """As verl's trainer builds it."""
    return load_extern_type(*SAMPLER)(
        trainer_mode=mode,
        trainer_config=OmegaConf.create({}),
        max_off_policy_threshold=8,
        max_off_policy_strategy="drop",
        sampler_kwargs=OmegaConf.create(SETTINGS | settings),
        refill_fn=refill,
    )


def put_group(queue, uid, *, index=0, status="finished", rows=(0, 1), failed=0, partition="train", segments=1):
    members = [Member(session, "submitted", resolved=True, segments=segments) for session in rows]
    members += [crashed_member(10 + i, "no mount") for i in range(failed)]
    tag = {"is_prompt": True, "status": status, "global_steps": 1, "index": index}
    queue.kv_put(uid, partition, tag=tag | {"members": [m.to_tag() for m in members]})
    keys = [f"{uid}_{session}_{i}" for session in rows for i in range(segments)]
    if keys:
        fields = list_of_dict_to_tensordict([{"rm_scores": torch.ones(1)} for _ in keys])
        queue.kv_batch_put(keys, partition, fields=fields, tags=[{"seq_len": 1} for _ in keys])


def test_rows_come_in_the_order_of_dataset_row_session_and_segment(queue):
    put_group(queue, "c", index=0, rows=(1, 0), segments=2)
    put_group(queue, "a", index=10, rows=(0,))
    put_group(queue, "b", index=2, rows=(0, 1))
    batch, _ = buffer().sample(1, "train", 3)
    assert batch.keys == ["c_0_0", "c_0_1", "c_1_0", "c_1_1", "b_0_0", "b_1_0", "a_0_0"]
    assert len(batch.tags) == len(batch.keys)


def test_metrics_cover_kept_and_dropped_groups_once(queue):
    sampler = buffer()
    put_group(queue, "a", rows=(0, 1))
    put_group(queue, "b", rows=(), failed=2, status="failure")
    _, metrics = sampler.sample(1, "train", 2)
    assert metrics["swe/failed"] == 0.5
    assert metrics["swe/groups/dropped"] == 0.5
    assert metrics["swe/rows/real_total"] == 2
    put_group(queue, "c", rows=(0, 1))
    _, metrics = sampler.sample(2, "train", 1)
    assert metrics["swe/groups/seen_total"] == 1
    assert metrics["swe/failed"] == 0


def test_validation_stays_out_of_the_training_metrics(queue):
    sampler = buffer()
    put_group(queue, "v", rows=(0,), failed=1, partition="val")
    _, metrics = sampler.sample(1, "val", 1)
    assert not any(name.startswith("swe/") for name in metrics)
    put_group(queue, "a")
    _, metrics = sampler.sample(1, "train", 1)
    assert metrics["swe/failed"] == 0


def test_a_batch_without_a_row_stops_the_run_with_the_reason(queue):
    """verl would say only that nothing can be materialised."""
    put_group(queue, "a", rows=(), failed=2, status="failure")
    with pytest.raises(TooManyFailures, match="2 x no mount"):
        buffer().sample(1, "train", 1)


@pytest.mark.timeout(20)  # what it guards against is an endless loop
@pytest.mark.parametrize("mode", ["sync", "colocate_async"])
def test_replacing_failed_groups_has_a_brake(queue, mode):
    """With a dead backend verl would go through the whole dataset."""
    started = []

    def refill(count):
        for _ in range(count):
            started.append(f"r{len(started)}")
            put_group(queue, started[-1], rows=(), failed=2, status="failure")

    put_group(queue, "a", rows=(), failed=2, status="failure")
    sampler = buffer(mode, refill, breaker_failures=8, sync_refill_failed_groups=True)
    with pytest.raises(TooManyFailures, match="8 rollouts failed in a row"):
        sampler.sample(1, "train", 1)
    assert len(started) == 3


@pytest.mark.timeout(20)
def test_failures_are_seen_before_their_group_has_ended(queue):
    """A group whose first members fail at once may run for half an hour."""
    put_group(queue, "a", rows=(), failed=3, status="running")
    with pytest.raises(TooManyFailures):
        buffer(breaker_failures=3).sample(1, "train", 1)


def test_a_worker_that_died_is_not_counted_by_the_breaker(queue):
    lost = [crashed_member(i, "worker died", stop="cancelled").to_tag() for i in range(9)]
    put_group(queue, "b")  # first, so that no survivor closes a series after them
    queue.kv_put("a", "train", tag={"is_prompt": True, "status": "failure", "global_steps": 1, "members": lost})
    batch, metrics = buffer(breaker_failures=3).sample(1, "train", 2)
    assert batch.keys == ["b_0_0", "b_1_0"]
    assert metrics["swe/stop/cancelled"] == pytest.approx(9 / 11)


def test_a_group_that_was_started_again_is_counted_by_its_second_run(queue):
    """Also if the second run has had as many ends as the first by the time it is looked at."""
    sampler = buffer()
    first = [crashed_member(1, "no mount").to_tag()]
    queue.kv_put("a", "train", tag={"is_prompt": True, "status": "running", "global_steps": 1, "members": first})
    sampler._sync_metadata_from_transfer_queue()
    put_group(queue, "a", rows=(0, 1))
    _, metrics = sampler.sample(1, "train", 1)
    assert metrics["swe/failed"] == 0
    assert metrics["swe/stop/submitted"] == 1


@pytest.mark.timeout(20)
def test_a_replaced_group_is_in_the_account_too(queue):
    """Asynchronous modes evict a dropped group and ask for another prompt; its rollouts happened all the same."""
    put_group(queue, "a", rows=(), failed=2, status="failure")
    sampler = buffer("colocate_async", lambda count: put_group(queue, "b"))
    batch, metrics = sampler.sample(1, "train", 1)
    assert batch.keys == ["b_0_0", "b_1_0"]
    assert metrics["swe/groups/dropped"] == 0.5
    assert metrics["swe/failed_total"] == 2
    assert metrics["training/rollout_failure/evicted_samples"] == 1


def put_rewarded(queue, uid, *rewards, index=0):
    put_group(queue, uid, index=index, rows=range(len(rewards)))
    members = [Member(i, "submitted", resolved=True, reward=reward, segments=1) for i, reward in enumerate(rewards)]
    queue.kv_put(uid, "train", tag={"members": [member.to_tag() for member in members]})


@pytest.mark.parametrize("mode", ["sync", "colocate_async"])
def test_groups_without_an_advantage_are_kept_unless_the_recipe_drops_them(queue, mode):
    for policy, kept in (("keep", ["a_0_0", "a_1_0", "b_0_0", "b_1_0"]), ("drop", ["b_0_0", "b_1_0"])):
        put_rewarded(queue, "a", 1.0, 1.0)
        put_rewarded(queue, "b", 0.0, 1.0, index=1)
        batch, metrics = buffer(mode, zero_advantage=policy).sample(1, "train", 2)
        assert batch.keys == kept
        assert metrics["swe/groups/zero_advantage"] == 0.5
        assert metrics["swe/rows/real_total"] == len(kept)
        assert set(queue.kv_list()["train"]) == set(kept)  # what was left out is gone
        queue.kv_clear(keys=kept, partition_id="train")


def test_a_batch_of_nothing_but_equal_rewards_stays_whole(queue):
    put_rewarded(queue, "a", 0.0, 0.0)
    batch, metrics = buffer(zero_advantage="drop").sample(1, "train", 1)
    assert batch.keys == ["a_0_0", "a_1_0"]
    assert metrics["swe/groups/zero_advantage"] == 1.0


def test_dapo_and_refill_settings_arrive(queue):
    groups = {"enable": True, "metric": "acc", "max_inflight_gen_batches": 3}
    sync = buffer(refill=lambda _: None, filter_groups=groups, gen_batch_size=2)
    assert isinstance(sync, SweReplayBuffer)
    assert (sync.filter_groups_metric, sync.max_inflight_gen_batches, sync.gen_batch_size) == ("acc", 3, 1)
    refilling = buffer(refill=lambda _: None, sync_refill_failed_groups=True, filter_groups={"enable": False})
    assert refilling.sync_refill_failed_groups
    assert refilling.filter_groups_metric is None
    asynchronous = buffer("separate_async", lambda _: None, filter_groups=groups)
    assert isinstance(asynchronous, SweReplayBufferAsync)
    assert asynchronous.filter_groups_metric == "acc"
    assert asynchronous.poll_interval == 0.01


@pytest.mark.parametrize(("extra", "drop"), [({"typo": 1}, ""), ({}, "breaker_failures")])
def test_settings_are_checked(extra, drop):
    settings = {k: v for k, v in (SETTINGS | extra).items() if k != drop}
    with pytest.raises(ConfigError, match="sampler_kwargs"):
        load_extern_type(*SAMPLER)(trainer_mode="sync", sampler_kwargs=settings)
