"""Real runs of ``python -m verl.trainer.main_ppo +plugin=swe``: verl, Ray, vLLM, FSDP2, sandboxes and containers,
nothing replaced.

Three start-ups of verl, the second one in containers. Each run is followed by a look for what it left behind.
"""

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import psutil
import pytest
from environments.docker.dockerd import eventually, running_dockerd

from swe_plugin.trajectories.audit import audit_run
from swe_plugin.verl_adapter.demo_model import default_cache

from . import tool_model

pytestmark = [pytest.mark.verl, pytest.mark.timeout(1800)]

SMALL = (
    "data.train_batch_size=4",
    "data.val_max_samples=4",
    "actor_rollout_ref.rollout.n=4",
    "actor_rollout_ref.actor.ppo_epochs=2",
    "trainer.v1.sampler.sampler_kwargs.breaker_failures=8",
)
MARK = "SWE_PLUGIN_TEST_RUN"


class Run:
    """One run of verl in a session of its own, its descendants recognisable by their environment."""

    def __init__(self, home: Path, recipe: str, *words: str, **variables: str):
        self.directory, self.mark = home / "outputs", uuid.uuid4().hex
        self.log = home / f"{self.mark}.log"
        command = [sys.executable, "-m", "verl.trainer.main_ppo", f"+plugin={recipe}"]
        command += [f"swe.output.dir={self.directory}", *SMALL, *words]
        environment = os.environ | {"SWE_PLUGIN_HOME": str(home), "PYTHONUNBUFFERED": "1", MARK: self.mark} | variables
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                env=environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd=home,
                # A shell starts its background jobs deaf to Ctrl-C, and their children inherit that.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )

    def wait(self, timeout_s: float = 900.0) -> int:
        return self.process.wait(timeout_s)

    def wait_for(self, condition, timeout_s: float = 900.0) -> None:
        end = time.monotonic() + timeout_s
        while not condition():
            assert self.process.poll() is None, self.tail()
            assert time.monotonic() < end, self.tail()
            time.sleep(0.5)

    def processes(self) -> list[psutil.Process]:
        """Everything that this run started and that still lives."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-6000:]

    def end(self) -> None:
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """State of these runs alone, but the demo's model as it is cached on this machine."""
    home = tmp_path_factory.mktemp("home")
    (default_cache() / "demo").mkdir(parents=True, exist_ok=True)
    (home / "demo").symlink_to(default_cache() / "demo")
    return home


@pytest.fixture
def start(home):
    runs = []

    def start(recipe, *words, **variables):
        runs.append(Run(home, recipe, *words, **variables))
        return runs[-1]

    yield start
    for run in runs:
        run.end()


def steps(directory: Path, name: str = "metrics.jsonl") -> dict[int, dict]:
    lines = (directory / name).read_text().splitlines() if (directory / name).exists() else []
    return {line["step"]: line["data"] for line in map(json.loads, lines)}


def assert_nothing_is_left(run: Run, home: Path, patience_s: float = 30.0) -> None:
    end = time.monotonic() + patience_s
    while (left := run.processes()) and time.monotonic() < end:
        time.sleep(0.5)
    assert not left, [process.cmdline() for process in left]
    assert not list(home.glob("leases/*/*.json"))


def test_grpo_trains_on_real_sandboxes_and_leaves_the_evidence(start, home):
    words = ("trainer.total_training_steps=2", "trainer.save_freq=2", "swe.output.run=grpo", "swe.overlap=prewarm")
    run = start("swe", *words)
    assert run.wait() == 0, run.tail()
    directory = run.directory / "grpo"
    by_step = steps(directory)
    assert sorted(by_step) == [0, 1, 2]
    for step in (1, 2):
        values = by_step[step]
        assert values["training/rollout_actor_probs_pearson_corr"] >= 0.99
        assert values["critic/score/mean"] == values["swe/resolved"]
        assert values["swe/failed_total"] == 0
        assert values["swe/rows/real_total"] == 16
        assert math.isfinite(values["actor/grad_norm"])
        rollouts = list((directory / f"step_{step}" / "train").glob("*@*/trajectory.json"))
        assert len(rollouts) == 16
    assert by_step[1]["swe/overlap/hidden_ratio"] == 0  # nobody could foresee the first batch
    assert by_step[2]["swe/overlap/hidden_ratio"] > 0.5
    held_out = "val-core/swe_demo/acc/mean@1"
    assert 0 <= by_step[0][held_out] <= 1
    assert 0 <= by_step[2][held_out] <= 1
    assert (directory / "config.yaml").is_file()
    assert (directory / "checkpoints" / "latest_checkpointed_iteration.txt").read_text() == "2"
    assert "held-out" in run.tail()
    assert_nothing_is_left(run, home)


@pytest.fixture
def dockerd(tmp_path_factory):
    with running_dockerd(tmp_path_factory.mktemp("dockerd")) as daemon:
        yield daemon


def test_a_named_run_resumes_in_containers_and_ctrl_c_leaves_nothing(start, home, dockerd):
    directory = home / "outputs" / "grpo"
    if not (directory / "checkpoints").is_dir():
        pytest.skip("needs the checkpoint of the test before")
    words = ("trainer.total_training_steps=500", "swe.output.run=grpo", "trainer.val_before_train=false")
    parts = ("swe.environment.backend=docker", "swe.overlap=prewarm")
    run = start("swe", *words, *parts, DOCKER_HOST=dockerd.host)
    run.wait_for(dockerd.containers)
    run.wait_for(lambda: len(steps(directory, "metrics-2.jsonl")) >= 2)
    resumed = steps(directory, "metrics-2.jsonl")
    assert min(resumed) == 3
    for step in (3, 4):
        assert resumed[step]["swe/failed_total"] == 0
        assert resumed[step]["swe/rows/real_total"] == 16
        assert resumed[step]["critic/score/mean"] == resumed[step]["swe/resolved"]
    assert resumed[4]["swe/overlap/hidden_ratio"] > 0.5  # found again in the middle of an epoch
    assert sorted(steps(directory)) == [0, 1, 2]
    run.process.send_signal(signal.SIGINT)
    assert run.wait(90) != 0
    assert_nothing_is_left(run, home)
    assert eventually(lambda: not dockerd.containers())


@pytest.fixture
def example_plugin(tmp_path):
    """`tests/example_plugin`, installed by pip into a folder of this test; environment variables that lead there."""
    source, site = tmp_path / "source", tmp_path / "site"
    shutil.copytree(Path(__file__).parents[1] / "example_plugin", source)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(site), str(source)], check=True, timeout=300)
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    return {"PYTHONPATH": path, "SWE_PLUGIN_EXAMPLE_LOG": str(tmp_path / "rollouts.log")}


@pytest.fixture
def tool_words(tmp_path):
    """A run whose model calls tools, in a template that is no tokenizer's, and sees only the last output."""
    assert tool_model.make(tmp_path / "model") < 0.2
    (tmp_path / "tools.jinja").write_text(tool_model.TEMPLATE)
    return (
        f"actor_rollout_ref.model.path={tmp_path}/model",
        f"swe.policy.chat_template={tmp_path}/tools.jinja",
        "swe.scaffold.action=tools",
        "swe.scaffold.keep_observations=1",
        "swe.policy.max_turn_tokens=64",
        "data.max_prompt_length=512",
        "data.max_response_length=384",
        "actor_rollout_ref.rollout.max_model_len=896",
    )


def test_ppo_trains_on_a_third_partys_parts_and_returns_are_the_rewards(start, home, example_plugin, tool_words):
    """Tool calls and a history that opens segments, too: the returns of each segment are the rollout's reward."""
    before = set(Path(tempfile.gettempdir()).glob("swe-example-*"))
    words = ("trainer.total_training_steps=2", "trainer.val_before_train=false", "trainer.test_freq=-1", *tool_words)
    parts = ("swe.environment.backend=example_bwrap", "swe.grading.grader=example_fraction")
    run = start("swe/demo_ppo", *words, *parts, "swe.plugins=[swe-plugin-example]", **example_plugin)
    assert run.wait() == 0, run.tail()
    (directory,) = [path for path in run.directory.iterdir() if path.name != "grpo"]
    assert sorted(steps(directory)) == [1, 2]
    for values in steps(directory).values():
        assert values["training/rollout_actor_probs_pearson_corr"] >= 0.99
        assert values["swe/failed_total"] == 0
        # gamma = lambda = 1: the return at every sampled token of a rollout is its reward
        assert values["critic/returns/max"] == pytest.approx(values["critic/score/max"], abs=1e-4)
        assert values["critic/returns/min"] == pytest.approx(values["critic/score/min"], abs=1e-4)
        assert math.isfinite(values["critic/vf_loss"])
        assert values["critic/grad_norm"] > 0
    rollouts = [json.loads(path.read_text()) for path in directory.glob("step_*/train/*@*/trajectory.json")]
    assert len(rollouts) == 32
    assert any("partial_credit" in rollout["flags"] and 0 < rollout["reward"] < 1 for rollout in rollouts)
    audit = audit_run(directory)
    assert audit.findings == []
    assert (audit.n_audited, audit.n_without_tokens) == (32, 0)
    assert audit.n_reopened > 16
    assert audit.n_trainable > 0
    calls = [m["tool_calls"] for rollout in rollouts for m in rollout["messages"] if m["role"] == "assistant"]
    assert sum(map(bool, calls)) > len(calls) / 2
    heard = sorted(Path(example_plugin["SWE_PLUGIN_EXAMPLE_LOG"]).read_text().splitlines())
    assert heard == sorted(f"{rollout['task']['instance_id']} BubblewrapEnvironment" for rollout in rollouts)
    assert_nothing_is_left(run, home)
    assert set(Path(tempfile.gettempdir()).glob("swe-example-*")) == before
