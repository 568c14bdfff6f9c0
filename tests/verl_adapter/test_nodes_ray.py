"""Several raylets on this machine, each a node with a state directory of its own: environments spread, and one node
is killed in mid-step. Marked `verl`: the processes import verl (minutes)."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import ray
import transfer_queue as tq
from environments.conftest import host_processes
from omegaconf import OmegaConf
from ray.cluster_utils import Cluster
from transfer_queue import interface
from transformers import AutoTokenizer

from swe_plugin.environments.images.host import host_image_key
from swe_plugin.environments.images.store import ImageStore
from swe_plugin.environments.leases import lease_directory, reap
from swe_plugin.types import Image
from swe_plugin.verl_adapter import watchdog
from swe_plugin.verl_adapter.dataset import SweDataset
from swe_plugin.verl_adapter.manager import NODE_RESOURCE, SweAgentLoopManager

from .conftest import wired
from .test_manager_ray import GatedClient, pids, release, submit, wait_for
from .test_sampler import buffer
from .worker_parts import word_task

pytestmark = pytest.mark.verl

UIDS = list("abcdef")
TASKS = [replace(word_task(i), image=Image(files={"word.txt": f"bad {i}\n"})).to_json() for i in range(2 * len(UIDS))]


class Rows:
    """What is trained on, as far as a look ahead asks."""

    def __init__(self):
        self.dataframe = [{"task": task} for task in TASKS]

    def __len__(self):
        return len(self.dataframe)


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    """State directories of three nodes; the image of this machine's tools is there already."""
    found, host = [], ImageStore().root / host_image_key()
    for number in range(3):
        home = tmp_path_factory.mktemp(f"node{number}")
        (home / "images").mkdir()
        if host.is_dir():
            (home / "images" / host.name).symlink_to(host)
        found.append(home)
    return found


@pytest.fixture(scope="module")
def cluster(homes):
    """A head, which holds the queue, and two more nodes that get nothing else than workers."""
    quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000, "health_check_failure_threshold": 3}
    directory = tempfile.mkdtemp(prefix="swe-nodes-")  # a short name, for sockets; nobody else may join this cluster
    head = {"num_cpus": 4, "_system_config": quick, "env_vars": {"SWE_PLUGIN_HOME": str(homes[0])}}
    head |= {"temp_dir": directory, "resources": {NODE_RESOURCE: 1}}
    made = Cluster(initialize_head=True, head_node_args=head)
    path = {"PYTHONPATH": str(Path(__file__).parents[1])}
    ray.init(address=made.address, log_to_driver=False, runtime_env={"env_vars": path})
    tq.init(OmegaConf.create({"backend": {"SimpleStorage": {"num_data_storage_units": 1}}}))
    for home in homes[1:]:
        made.add_node(num_cpus=0, resources={NODE_RESOURCE: 1}, env_vars={"SWE_PLUGIN_HOME": str(home)})
    yield made
    tq.close()
    ray.shutdown()
    made.shutdown()
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def manager(composed, model_dir, tmp_path_factory, cluster):
    """Three workers, two rollouts per prompt, sandboxes."""
    before, interface_before = SweDataset.training, interface._TQ_CLIENT
    directory = tmp_path_factory.mktemp("gates")
    config = wired(composed, model_dir, directory)
    config.actor_rollout_ref.rollout.agent.num_workers = 3
    config.actor_rollout_ref.rollout.n = 2
    config.data.train_batch_size = len(UIDS)
    config.data.shuffle = False
    config.trainer.total_epochs = 1
    config.swe.environment = {"backend": "sandbox"}
    config.swe.overlap = "prewarm"
    config.swe.failure = {"max_attempts": 2, "watchdog_s": 60.0}
    SweDataset.training = Rows()
    made = SweAgentLoopManager.create(
        config=config,
        llm_client=GatedClient(directory, AutoTokenizer.from_pretrained(model_dir)),
        teacher_client=None,
        reward_loop_worker_handles=[],
    )
    made.gates = directory
    yield made
    watchdog._active.discard(made._watchdog)
    SweDataset.training, interface._TQ_CLIENT = before, interface_before


def home_of(pid):
    return Path(psutil.Process(pid).environ()["SWE_PLUGIN_HOME"])


def processes_of(home):
    """Raylet, agents and workers of a node; not its environments, which know no variables of ours."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get("SWE_PLUGIN_HOME") == str(home):
                found.append(process)
        except psutil.Error:
            continue
    return found


def leases(home):
    return [path.stem for path in home.glob("leases/*/*.json")]


def test_images_are_there_before_anything_is_dispatched(manager, homes):
    built = [len(list((home / "images" / "entries").glob("*.json"))) for home in homes]
    assert all(number >= 2 for number in built), built  # two prompts for each node


def test_a_node_that_is_killed_in_mid_step_costs_nothing_but_time(manager, homes, cluster, monkeypatch):
    submit(manager, UIDS, task=TASKS[: len(UIDS)])
    runs = {uid: wait_for(lambda uid=uid: pids(manager.gates, uid)) for uid in UIDS}
    at = {uid: home_of(next(iter(found))) for uid, found in runs.items()}
    assert set(at.values()) == set(homes)
    (victim,) = {at[uid] for uid in UIDS} - {homes[0], homes[1]}
    lost, held = [uid for uid in UIDS if at[uid] == victim], leases(victim)
    assert any(host_processes(identity) for identity in held)
    for process in processes_of(victim):
        process.kill()
    for uid in lost:
        (again,) = wait_for(lambda uid=uid: pids(manager.gates, uid) - runs[uid])
        assert home_of(again) != victim
    release(manager.gates, *UIDS)
    batch, metrics = buffer().sample(1, "train", len(UIDS))
    assert sorted(batch.keys) == [f"{uid}_{session}_0" for uid in UIDS for session in range(2)]
    assert metrics["swe/failed"] == 0
    assert processes_of(victim) == []
    wait_for(lambda: not any(host_processes(identity) for identity in held))  # nobody had to clean

    following = [uid.upper() for uid in UIDS]
    release(manager.gates, *following)
    submit(manager, following, task=TASKS[len(UIDS) :], index=list(range(len(UIDS), len(TASKS))), step=2)
    batch, metrics = buffer().sample(2, "train", len(UIDS))
    assert len(batch.keys) == 2 * len(UIDS)
    for uid, home in at.items():  # what the other nodes had started for this step is used, there
        if home != victim:
            assert {home_of(pid) for pid in pids(manager.gates, uid.upper())} == {home}
    assert 0.4 < metrics["swe/overlap/hidden_ratio"] < 1.0

    monkeypatch.setenv("SWE_PLUGIN_HOME", str(victim))
    assert reap().problems == []
    assert list(lease_directory().iterdir()) == []
    assert list(victim.glob("pools/*/*")) == []
