"""The driver before Ray: a bad setting costs one line, a good one gets a directory of its own."""

import os
import shutil
from datetime import datetime
from pathlib import Path

import pytest
from hydra.errors import HydraException
from omegaconf import OmegaConf

from swe_plugin.data.demo import demo_tasks
from swe_plugin.errors import ConfigError
from swe_plugin.verl_adapter import callback, cpu
from swe_plugin.verl_adapter.bootstrap import DEVICE_VARIABLE
from swe_plugin.verl_adapter.demo.rows import write_rows
from swe_plugin.verl_adapter.run_directory import claim, metrics_file

from .test_recipes import composed

NOW = datetime(2030, 1, 2, 3, 4, 5)


@pytest.fixture(autouse=True)
def nothing_outlives_the_test(monkeypatch, tmp_path):
    monkeypatch.setattr(cpu, "activate", lambda: None)
    monkeypatch.setenv("SWE_PLUGIN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(DEVICE_VARIABLE, "")


@pytest.fixture
def run_config(tmp_path, model_dir):
    """Composes a run that would start, with more words."""
    model, data = tmp_path / "model", tmp_path / "tasks.parquet"
    shutil.copytree(model_dir, model)
    (model / "model.safetensors").touch()
    write_rows(demo_tasks()[:16], data)
    words = "+plugin=swe swe_device=cpu swe.demo.enabled=false swe.environment.backend=dummy"
    words += f" actor_rollout_ref.model.path={model} data.train_files={data} data.val_files={data}"
    return lambda *more: composed(*words.split(), f"swe.output.dir={tmp_path}/outputs", *more)


def test_new_runs_never_share_a_directory(tmp_path):
    first, second, third = (claim(tmp_path, "", NOW) for _ in range(3))
    assert first == tmp_path / "2030-01-02_03-04-05"
    assert len({first, second, third}) == 3


def test_a_named_run_may_be_taken_up_again_and_keeps_its_metrics(tmp_path):
    run = claim(tmp_path, "mine", NOW)
    metrics_file(run).write_text("{}")
    assert claim(tmp_path, "mine", NOW) == run
    assert metrics_file(run) == run / "metrics-2.jsonl"


def test_a_directory_that_cannot_be_written_is_a_clear_refusal(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"swe.output.dir=.*cannot write there: Not a directory"):
        claim(tmp_path / "file", "", NOW)
    with pytest.raises(ConfigError, match=r"swe\.output\.run='file'"):
        claim(tmp_path, "file", NOW)


def test_prepare_points_verl_at_the_run_directory(tmp_path, run_config):
    config = run_config()
    run, _ = callback.prepare(config)
    assert run.parent == tmp_path / "outputs"
    assert config.trainer.default_local_dir == f"{run}/checkpoints"
    assert config.trainer.experiment_name == run.name
    variables = OmegaConf.to_container(config.ray_kwargs.ray_init.runtime_env.env_vars)
    assert variables["VERL_FILE_LOGGER_PATH"] == str(run / "metrics.jsonl")
    assert variables["SWE_PLUGIN_DEVICE"] == os.environ["SWE_PLUGIN_DEVICE"] == "cpu"


def test_refilling_groups_without_an_advantage_is_verls_own_filter(run_config):
    config = run_config("swe.failure.zero_advantage=refill")
    assert not config.algorithm.filter_groups.enable
    callback.prepare(config)
    assert (config.algorithm.filter_groups.enable, config.algorithm.filter_groups.metric) == (True, "reward")


def test_the_run_directory_says_what_was_run(tmp_path, run_config):
    run, _ = callback.prepare(run_config("trainer.total_training_steps=7"))
    written = OmegaConf.load(run / "config.yaml")
    assert written.trainer.total_training_steps == 7
    assert written.trainer.v1.sampler.sampler_kwargs.train_batch_size == written.data.train_batch_size
    assert "hydra" not in written


def test_a_run_keeps_the_day_of_its_first_start(run_config):
    run, _ = callback.prepare(run_config())
    text = (run / "config.yaml").read_text()
    today = datetime.now().date().isoformat()
    assert f"template_date: '{today}'" in text
    (run / "config.yaml").write_text(text.replace(today, "2026-01-31"))  # it was started on another day
    config = run_config(f"swe.output.run={run.name}")
    callback.prepare(config)
    assert config.swe.policy.template_date == "2026-01-31"


def test_the_demo_fills_only_what_the_user_left_open(tmp_path, monkeypatch, run_config):
    from swe_plugin.verl_adapter import demo_model

    made = demo_model.DemoArtifacts(Path("/m"), Path("/t.parquet"), Path("/h.parquet"), {"random_policy": 0.1})
    monkeypatch.setattr(demo_model, "prepare_demo", lambda _: made)
    config = run_config("swe.demo.enabled=true", "actor_rollout_ref.model.path=null", "data.train_files=null")
    run, _ = callback.prepare(config)
    assert (config.actor_rollout_ref.model.path, config.data.train_files) == ("/m", "/t.parquet")
    assert config.data.val_files.endswith("tasks.parquet")
    assert (run / "baselines.json").read_text().startswith('{\n "random_policy"')


def test_an_error_of_ours_ends_the_run_instead_of_becoming_a_warning(tmp_path, monkeypatch, run_config):
    monkeypatch.setattr(callback, "prepare", lambda _: 1 / 0)
    with pytest.raises(SystemExit) as end:
        callback.SweCallback().on_run_start(run_config())
    assert end.value.code == 1


def test_a_key_that_does_not_exist_is_refused_by_hydra():
    with pytest.raises(HydraException, match=r"swe\.scafold"):
        composed("+plugin=swe", "swe.scafold.name=bash")
