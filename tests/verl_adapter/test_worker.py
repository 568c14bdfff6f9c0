"""The worker's group rule, seen as the advantages that verl computes from what it published."""

import asyncio
import itertools
import uuid

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transfer_queue import interface
from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage
from verl.trainer.ppo.metric_utils import process_validation_metrics
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size

from swe_plugin.plugins import Entry, load_plugins
from swe_plugin.trajectories.audit import audit_run
from swe_plugin.trajectories.store import find_trajectories, load_trajectory
from swe_plugin.verl_adapter import agent_loop
from swe_plugin.verl_adapter.worker import SweAgentLoopWorker

from .builders import advantages, rollout, segment
from .test_sampler import buffer
from .worker_parts import GIVES_UP, SOLVES, SUBMIT, ScriptedClient, prompts


@pytest.fixture
def parts(monkeypatch):
    """The environment and grader of these tests, registered as a plugin's would be."""
    for kind, name, target in (
        ("environments", "word", "WordEnvironment"),
        ("graders", "word", "WordGrader"),
    ):
        entry = Entry(kind, name, f"{__package__}.worker_parts:{target}", "", "tests")
        monkeypatch.setitem(load_plugins().entries, (kind, name), entry)


@pytest.fixture
def make_worker(queue, config, parts):
    def make(answers, *, broken=(), version=0, **changes):
        config.swe.environment = {"backend": "word", "options": {"broken_sessions": list(broken)}}
        config.swe.grading = {"grader": "word"}
        for key, value in changes.items():
            config.actor_rollout_ref.rollout[key] = value
        worker = SweAgentLoopWorker(config, None)
        worker.llm_client = ScriptedClient(worker.tokenizer, answers, version=version)
        worker.runtime.worker.backoff_s = 0.0
        return worker

    return make


async def run(worker, queue, uids=("g",), **kwargs):
    """Run a batch to its end; statuses by uid."""
    batch = prompts(uids, **kwargs)
    partition = "val" if kwargs.get("validate") else "train"
    step = kwargs.get("step", 1)
    tags = [{"is_prompt": True, "status": "pending", "global_steps": step} for _ in uids]
    queue.kv_batch_put(keys=list(uids), partition_id=partition, tags=tags)
    await worker.generate_sequences(batch)
    await asyncio.gather(*worker.background_tasks)
    listed = queue.kv_list(partition)[partition]
    return {uid: listed[uid]["status"] for uid in uids}, sorted(k for k in listed if k not in uids)


async def test_a_failed_member_leaves_exactly_the_advantages_of_its_siblings(make_worker, queue):
    """Rewards [1, 0, 1, failed] must train like [1, 0, 1]."""
    answers = {0: SOLVES, 1: GIVES_UP, 2: SOLVES, 3: SOLVES}
    statuses, keys = await run(make_worker(answers, broken=[3]), queue)
    assert statuses == {"g": "finished"}
    assert keys == ["g_0_0", "g_1_0", "g_2_0"]
    with_failure = advantages(keys)

    statuses, keys = await run(make_worker(answers, n=3), queue, ["h"])
    without = advantages([k for k in keys if k.startswith("h")])
    assert list(with_failure.values()) == list(without.values())
    assert with_failure["g", "1", "0"] == pytest.approx(-1.1547, abs=1e-3)


async def test_a_lone_survivor_is_not_trained_on(make_worker, queue):
    statuses, keys = await run(make_worker({0: SOLVES}, broken=[1, 2, 3]), queue)
    assert statuses == {"g": "failure"}
    assert keys == []


async def test_all_failed_drops_the_group_and_says_why(make_worker, queue):
    statuses, keys = await run(make_worker({}, broken=[0, 1, 2, 3]), queue)
    assert (statuses, keys) == ({"g": "failure"}, [])
    members = queue.kv_list("train")["train"]["g"]["members"]
    assert {m["stop"] for m in members} == {"environment_start"}
    assert "no mount" in members[0]["cause"]


async def test_one_group_that_fails_leaves_the_others_alone(make_worker, queue):
    """A server error in every rollout of a group, another group beside it: the step has the other one."""
    worker = make_worker(dict.fromkeys(range(4), SOLVES))
    generate = worker.llm_client.generate

    async def fails_for_a(request_id, **kwargs):
        if request_id.startswith("a"):
            raise ConnectionError("no server")
        return await generate(request_id, **kwargs)

    worker.llm_client.generate = fails_for_a
    worker.runtime.config.policy.max_attempts = 1
    statuses, keys = await run(worker, queue, ["a", "b"])
    assert statuses == {"a": "failure", "b": "finished"}
    assert keys == [f"b_{i}_0" for i in range(4)]
    members = queue.kv_list("train")["train"]["a"]["members"]
    assert {m["stop"] for m in members} == {"model_error"}


async def test_what_a_rollout_raises_is_its_own_failure(make_worker, queue):
    """A row without a task: a bug of the dataset, not a reason to stop the step."""
    statuses, keys = await run(make_worker(dict.fromkeys(range(4), SOLVES)), queue, task=["{}"])
    assert (statuses, keys) == ({"g": "failure"}, [])
    assert "not a task" in queue.kv_list("train")["train"]["g"]["members"][0]["cause"]


async def test_a_rollout_that_is_cancelled_ends_its_group_like_any_failure(make_worker, queue):
    """Nobody else would: verl waits for a group without a deadline."""
    worker = make_worker(dict.fromkeys(range(4), SOLVES) | {1: [asyncio.CancelledError()]})
    statuses, keys = await run(worker, queue)
    assert (statuses, keys) == ({"g": "finished"}, ["g_0_0", "g_2_0", "g_3_0"])
    members = queue.kv_list("train")["train"]["g"]["members"]
    assert {m["session"]: m["stop"] for m in members}[1] == "cancelled"


async def test_rows_that_the_queue_refuses_leave_no_keys(make_worker, queue, monkeypatch):
    """The queue makes keys before it stores their data; one without data would end the step."""
    client = interface._TQ_CLIENT
    put = client.async_put

    calls = itertools.count()

    async def refuse_second(*args, **kwargs):
        if next(calls) == 1:
            raise TimeoutError("storage is full")
        return await put(*args, **kwargs)

    monkeypatch.setattr(client, "async_put", refuse_second)
    statuses, keys = await run(make_worker(dict.fromkeys(range(4), SOLVES)), queue)
    assert (statuses, keys) == ({"g": "finished"}, ["g_0_0", "g_2_0", "g_3_0"])


async def test_a_journal_that_cannot_be_written_costs_no_rollout(make_worker, queue, monkeypatch, caplog):
    def full(_):
        raise OSError("no space left on device")

    monkeypatch.setattr("swe_plugin.verl_adapter.runtime.Journal._write", full)
    _, keys = await run(make_worker(dict.fromkeys(range(4), SOLVES)), queue)
    assert len(keys) == 4
    assert "a journal could not be written" in caplog.text


@pytest.mark.parametrize(
    ("version", "validate", "rows"), [(2, False, 4), (3, False, 3), (3, True, 4)], ids=["same", "newer", "validation"]
)
async def test_a_failed_attempt_is_repeated_only_with_the_same_weights(
    make_worker, queue, config, version, validate, rows
):
    """Step 3 samples with version 2, and its validation with version 3."""
    config.actor_rollout_ref.rollout.val_kwargs.n = 4
    worker = make_worker(dict.fromkeys(range(4), SOLVES), version=version)
    worker.runtime.config.policy.max_attempts = 1
    generate = worker.llm_client.generate

    async def fails_once(request_id, **kwargs):
        if request_id == "g_3_1":
            while len(worker.llm_client.calls) < 6:  # until its siblings have been answered
                await asyncio.sleep(0.001)
            raise ConnectionError("no server")
        return await generate(request_id, **kwargs)

    worker.llm_client.generate = fails_once
    _, keys = await run(worker, queue, step=3, validate=validate)
    sampled = [m for m in queue.kv_list()["val" if validate else "train"]["g"]["members"] if m.get("segments")]
    assert len(sampled) == rows
    assert len(keys) == (4 if validate else rows)


async def test_ppo_keeps_a_single_survivor(make_worker, queue, config):
    """GAE compares nobody: one row of a group is as good as four."""
    config.algorithm.adv_estimator = "gae"
    statuses, keys = await run(make_worker({0: SOLVES}, broken=[1, 2, 3]), queue)
    assert (statuses, keys) == ({"g": "finished"}, ["g_0_0"])


async def test_rows_carry_what_the_policy_sampled(make_worker, queue):
    worker = make_worker(dict.fromkeys(range(4), SOLVES), version=7)
    _, keys = await run(worker, queue, step=8)
    fields = ["prompts", "responses", "response_mask", "rollout_log_probs", "rm_scores", "extra_fields", "index"]
    rows = queue.kv_batch_get(keys=keys, partition_id="train", select_fields=fields)
    row = rows[0]
    sampled = row["responses"][row["response_mask"].bool()].tolist()
    text = worker.tokenizer.decode(sampled, skip_special_tokens=True)
    assert text == "".join(SOLVES)
    assert row["rollout_log_probs"][row["response_mask"].bool()].unique().tolist() == [-0.25]
    assert row["response_mask"][-1] == 1
    assert row["rm_scores"][-1] == 1
    extra = row["extra_fields"]
    assert (extra["min_global_steps"], extra["max_global_steps"]) == (7, 7)
    tag = queue.kv_list("train")["train"][keys[0]]
    assert (tag["min_global_steps"], tag["global_steps"]) == (7, 8)


async def test_no_row_stores_the_task_with_its_hidden_tests(make_worker, queue):
    _, keys = await run(make_worker(dict.fromkeys(range(4), SOLVES)), queue)
    rows = queue.kv_batch_get(keys=keys, partition_id="train")
    assert "task" not in rows.keys()  # noqa: SIM118 - a TensorDict iterates over rows
    assert not any(key.startswith("swe_") for key in rows.keys())  # noqa: SIM118


async def test_validation_counts_a_failure_as_zero_and_reports_it(make_worker, queue, config):
    config.actor_rollout_ref.rollout.val_kwargs.n = 2
    worker = make_worker({0: SOLVES, 1: SOLVES}, broken=[1])
    statuses, keys = await run(worker, queue, ["v", "w"], validate=True, step=0)
    assert statuses == {"v": "finished", "w": "finished"}
    assert len(keys) == 4
    rows = queue.kv_batch_get(keys=keys, partition_id="val", select_fields=["uid", "rm_scores", "extra_fields"])
    infos = [extra["reward_extra_info"] for extra in rows.pop("extra_fields").tolist()]
    found = process_validation_metrics(
        ["words"] * 4, rows.pop("uid").tolist(), {key: [info[key] for info in infos] for key in infos[0]}
    )["words"]
    assert found["acc"]["mean@2"] == 0.5
    assert found["failed"]["mean@2"] == 0.5
    assert rows["rm_scores"].to_padded_tensor(0).sum().item() == 2.0


async def test_validation_keeps_a_group_of_failures(make_worker, queue, config):
    config.actor_rollout_ref.rollout.val_kwargs.n = 1
    statuses, keys = await run(make_worker({}, broken=[0]), queue, ["v"], validate=True)
    assert (statuses, keys) == ({"v": "finished"}, ["v_0_0"])


async def test_a_prompt_that_nobody_could_run_has_validation_rows(make_worker, queue, config):
    """What the manager asks for when a worker has died twice over the same prompt."""
    config.actor_rollout_ref.rollout.val_kwargs.n = 2
    worker = make_worker({})
    queue.kv_put("v", "val", tag={"is_prompt": True, "status": "running", "global_steps": 3})
    await worker.fail_prompt(prompts(["v"], step=3, validate=True), "agent-loop worker died")
    listed = queue.kv_list("val")["val"]
    assert listed["v"]["status"] == "finished"
    assert sorted(listed) == ["v", "v_0_0", "v_1_0"]


async def test_the_sampler_sees_what_the_worker_published(make_worker, queue):
    """Worker and replay buffer together, as in a step."""
    worker = make_worker({0: SOLVES, 1: GIVES_UP, 2: SOLVES, 3: SOLVES}, broken=[3])
    await run(worker, queue, ["a", "b"])
    batch, metrics = await asyncio.to_thread(buffer(rollout_n=4).sample, 1, "train", 2)
    assert batch.keys == ["a_0_0", "a_1_0", "a_2_0", "b_0_0", "b_1_0", "b_2_0"]
    assert metrics["swe/failed"] == 0.25
    assert metrics["swe/resolved"] == pytest.approx(2 / 3)
    assert metrics["swe/stop/submitted"] == 0.75
    assert metrics["swe/groups/short"] == 1.0
    assert metrics["swe/patch/empty"] == pytest.approx(1 / 3)


async def test_verl_pads_our_rows_without_changing_an_advantage(make_worker, queue):
    """Three rows in updates of eight: verl clones one of ours as padding, and the real ones train as before."""
    _, keys = await run(make_worker({0: SOLVES, 1: GIVES_UP, 2: SOLVES}, broken=[3]), queue)
    tags = queue.kv_list("train")["train"]
    before = advantages(keys)
    batch = queue.KVBatchMeta(partition_id="train", keys=list(keys), tags=[tags[key] for key in keys])
    padded = await asyncio.to_thread(upsample_batch_to_divisible_size, batch, 8, 0)
    assert len(padded.keys) == 8
    after = advantages(padded.keys)
    assert {key: after[key] for key in before} == before
    assert [tag.get("is_padding", False) for tag in padded.tags] == [False] * 3 + [True] * 5


async def test_rollouts_are_recorded_and_proved_by_the_journal(make_worker, queue, tmp_path):
    await run(make_worker(dict.fromkeys(range(4), SOLVES), version=2), queue, step=3)
    run_dir = tmp_path / "outputs" / "test"
    found = [load_trajectory(path) for path in find_trajectories(run_dir)]
    assert {t.path.relative_to(run_dir).as_posix() for t in found} == {
        f"step_3/train/word-0@{session}" for session in range(4)
    }
    audit = audit_run(run_dir)
    assert audit.ok, audit.findings
    assert audit.calls == {"consumed": 8}
    assert audit.versions == {2: audit.n_trainable}


async def test_the_agent_sees_nothing_of_this_process(make_worker, queue, monkeypatch, tmp_path):
    monkeypatch.setenv("WANDB_API_KEY", "secret-of-the-trainer")
    shows = ("```bash\nenv\n```", SUBMIT)
    await run(make_worker(dict.fromkeys(range(4), shows)), queue)
    found = [load_trajectory(path) for path in find_trajectories(tmp_path / "outputs" / "test")]
    seen = found[0].result.turns[0].results[0].stdout
    assert "PATH=" in seen
    assert "WANDB" not in seen


def script_rollouts(monkeypatch, rewards, segments=()):
    """Rollouts with the given rewards (None: failed), each of so many segments (default 1)."""

    async def scripted(self, request, server):
        reward = rewards[request.session]
        pieces = [segment(3) for _ in range(segments[request.session] if segments else 1)]
        return rollout(reward, session=request.session, segments=pieces)

    monkeypatch.setattr(agent_loop.Runtime, "rollout", scripted)


async def test_a_member_of_two_segments_counts_once(make_worker, queue, monkeypatch):  # agent-lightning#445
    """Segments of one trajectory share its advantage and do not shift the group's mean."""
    script_rollouts(monkeypatch, [1.0, 0.0, 0.0, 1.0], [2, 1, 1, 1])
    _, keys = await run(make_worker({}), queue)
    assert keys == ["g_0_0", "g_0_1", "g_1_0", "g_2_0", "g_3_0"]
    found = advantages(keys)
    assert found["g", "0", "0"] == found["g", "0", "1"] == found["g", "3", "0"]
    assert found["g", "3", "0"] == pytest.approx(0.866, abs=1e-3)


members = st.tuples(st.none() | st.sampled_from([0.0, 0.5, 1.0]), st.integers(1, 3))


def test_whatever_fails_the_survivors_train_as_if_alone(make_worker, queue, monkeypatch):
    """Any rewards, failures and segments: the advantages are verl's for the survivors' rewards, one each."""
    worker = make_worker({})

    @settings(max_examples=20, deadline=None)
    @given(st.lists(members, min_size=2, max_size=6))
    def check(group):
        rewards = [reward for reward, _ in group]
        alive = [session for session, reward in enumerate(rewards) if reward is not None]
        script_rollouts(monkeypatch, rewards, [segments for _, segments in group])
        worker.config.actor_rollout_ref.rollout.n = len(group)
        uid = uuid.uuid4().hex
        statuses, keys = asyncio.run(run(worker, queue, [uid]))
        own = [key for key in keys if key.startswith(uid)]
        if len(alive) < 2:
            assert (statuses[uid], own) == ("failure", [])
            return
        assert statuses[uid] == "finished"
        scores = torch.tensor([[rewards[session]] for session in alive])
        alone, _ = compute_grpo_outcome_advantage(scores, torch.ones_like(scores), np.array(["g"] * len(alive)))
        expected = {
            (uid, str(session), str(i)): pytest.approx(value, abs=1e-4)
            for session, value in zip(alive, alone[:, 0].tolist(), strict=True)
            for i in range(group[session][1])
        }
        assert advantages(own) == expected

    check()
