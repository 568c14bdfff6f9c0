"""Workers that are killed, with real Ray: the step goes on. Marked `verl`: the processes import verl (a minute)."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest
import ray
import transfer_queue as tq
from omegaconf import OmegaConf
from transfer_queue import interface
from transformers import AutoTokenizer
from verl.workers.rollout.replica import TokenOutput

from swe_plugin.errors import TooManyFailures
from swe_plugin.verl_adapter import watchdog
from swe_plugin.verl_adapter.manager import SweAgentLoopManager

from .conftest import wired
from .test_sampler import buffer
from .worker_parts import SUBMIT, prompts

pytestmark = pytest.mark.verl


class GatedClient:
    """Answers "submit" to a prompt once ``<uid>.open`` exists; tells by ``<uid>.<pid>`` which worker runs it."""

    def __init__(self, directory: Path, tokenizer):
        self.directory, self.tokenizer = directory, tokenizer

    async def generate(self, request_id, *, prompt_ids, sampling_params, **_):
        uid = request_id.partition("_")[0]
        (self.directory / f"{uid}.{os.getpid()}").touch()
        while not (self.directory / f"{uid}.open").exists():
            await asyncio.sleep(0.02)
        ids = [*self.tokenizer.encode(SUBMIT, add_special_tokens=False), self.tokenizer.eos_token_id]
        versions = {"global_steps": 0, "min_global_steps": 0, "max_global_steps": 0}
        return TokenOutput(token_ids=ids, log_probs=[-0.1] * len(ids), stop_reason="completed", extra_fields=versions)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return tmp_path_factory.mktemp("gates")


@pytest.fixture(scope="module")
def manager(composed, model_dir, files):
    """Two workers, two rollouts per prompt, two attempts, ten seconds of patience."""
    before, interface._TQ_CLIENT = interface._TQ_CLIENT, None
    config = wired(composed, model_dir, files)
    config.actor_rollout_ref.rollout.agent.num_workers = 2
    config.actor_rollout_ref.rollout.n = config.actor_rollout_ref.rollout.val_kwargs.n = 2
    config.swe.failure = {"max_attempts": 2, "watchdog_s": 10.0}
    path = {"PYTHONPATH": str(Path(__file__).parents[1])}  # workers unpickle the client above
    ray.init(num_cpus=6, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": path})
    tq.init(OmegaConf.create({"backend": {"SimpleStorage": {"num_data_storage_units": 1}}}))
    made = SweAgentLoopManager.create(
        config=config,
        llm_client=GatedClient(files, AutoTokenizer.from_pretrained(model_dir)),
        teacher_client=None,
        reward_loop_worker_handles=[],
    )
    yield made
    watchdog._active.discard(made._watchdog)
    tq.close()
    ray.shutdown()
    interface._TQ_CLIENT = before


def submit(manager, uids, **kwargs):
    partition = "val" if kwargs.get("validate") else "train"
    tags = [{"is_prompt": True, "status": "pending", "global_steps": 1} for _ in uids]
    tq.kv_batch_put(keys=list(uids), partition_id=partition, tags=tags)
    manager.generate_sequences(prompts(uids, **kwargs))


def pids(files, uid):
    return {int(path.suffix[1:]) for path in files.glob(f"{uid}.*") if path.suffix != ".open"}


def release(files, *uids):
    for uid in uids:
        (files / f"{uid}.open").touch()


def wait_for(condition, timeout_s=120.0):
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "timed out"
        watchdog.check_all()
        time.sleep(0.05)
    return found


def kill(files, uid, signum=signal.SIGKILL, known=frozenset()):
    """Signal the worker that runs a prompt; `known` are pids of workers that ran it before."""
    (pid,) = wait_for(lambda: pids(files, uid) - known)
    os.kill(pid, signum)
    return known | {pid}


def test_the_reason_of_the_breaker_reaches_the_driver(manager):
    """verl's trainer is a Ray task; what it raises has to arrive with its type and its words."""

    @ray.remote(num_cpus=0)
    def train():
        raise TooManyFailures("32 rollouts failed in a row: 32 x no mount")

    with pytest.raises(TooManyFailures, match="32 x no mount"):
        ray.get(train.remote())


def test_the_step_completes_although_a_worker_was_killed(manager, files):
    uids = ["a", "b", "k", "l"]  # two for each worker: both of the dead one's run again
    submit(manager, uids)
    killed = kill(files, "a")
    wait_for(lambda: pids(files, "a") - killed and pids(files, "b") - killed)
    release(files, *uids)
    batch, metrics = buffer().sample(1, "train", 4)
    assert batch.keys == [f"{uid}_{session}_0" for uid in uids for session in range(2)]
    assert metrics["swe/failed"] == 0


def test_a_worker_that_answers_nothing_is_replaced(manager, files):
    submit(manager, ["c", "d"])
    wait_for(lambda: pids(files, "c") and pids(files, "d"))
    stopped = kill(files, "c", signal.SIGSTOP)
    wait_for(lambda: pids(files, "c") - stopped)
    release(files, "c", "d")
    batch, _ = buffer().sample(1, "train", 2)
    assert len(batch.keys) == 4


def test_a_prompt_that_two_workers_died_over_is_given_up(manager, files):
    submit(manager, ["e", "f"])
    submit(manager, ["v"], validate=True)
    wait_for(lambda: pids(files, "v") and pids(files, "e") and pids(files, "f"))
    victim, other = ("e", "f") if pids(files, "v") == pids(files, "e") else ("f", "e")
    kill(files, victim, known=kill(files, victim))
    wait_for(lambda: tq.kv_list("train")["train"][victim]["status"] == "failure")
    release(files, other)
    batch, metrics = buffer().sample(1, "train", 2)
    assert batch.keys == [f"{other}_0_0", f"{other}_1_0"]
    assert metrics["swe/stop/cancelled"] == 0.5
    assert metrics["swe/groups/dropped_total"] == 1
    batch, _ = buffer().sample(1, "val", 1)
    assert batch.keys == ["v_0_0", "v_1_0"]
    rows = tq.kv_batch_get(keys=batch.keys, partition_id="val", select_fields=["extra_fields"])
    assert [extra["reward_extra_info"]["failed"] for extra in rows.pop("extra_fields").tolist()] == [1.0, 1.0]


def test_a_worker_that_always_dies_ends_the_run(manager, files, monkeypatch):
    submit(manager, ["i", "j"])  # a prompt that ends in peace closes the series of the tests before
    release(files, "i", "j")
    buffer().sample(1, "train", 2)
    monkeypatch.setattr(manager._failure, "max_attempts", 9)
    submit(manager, ["g", "h"])
    killed = kill(files, "g", known=kill(files, "g"))
    kill(files, "g", known=killed)
    with pytest.raises(TooManyFailures, match="died 3 times in a row"):
        wait_for(lambda: False)
