"""`swe-plugin audit` as a user calls it."""

import asyncio
import json
import shutil

import pytest
from trajectories.recorded import Spoiler, record
from typer.testing import CliRunner

from swe_plugin.cli.app import build_app


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return asyncio.run(record(tmp_path_factory.mktemp("recorded") / "run"))


@pytest.fixture
def call():
    return lambda *words: CliRunner(env={"COLUMNS": "200"}).invoke(build_app(), ["audit", *map(str, words)])


def test_a_proved_run_says_so_and_what_was_not_recorded(call, recorded):
    done = call(recorded)
    assert done.exit_code == 0
    assert "proved" in done.stdout
    assert "3 of 3" in done.stdout
    assert "0 of them end on mask 0" in done.stdout
    assert "not recorded" in done.stdout  # the trainer's log-probs


def test_a_broken_run_exits_with_1_and_names_rollout_and_rule(call, recorded, tmp_path):
    spoiler = Spoiler(shutil.copytree(recorded, tmp_path / "run"))
    spoiler.tokens(lambda tokens: tokens["ids"].__setitem__(0, 1))
    done = call(spoiler.run_dir)
    assert done.exit_code == 1
    assert "wrong_context" in done.stdout
    assert "step_4/train/" in done.stdout
    assert "proved" not in done.stdout


def test_as_data_it_has_every_number_and_violation(call, recorded, tmp_path, write_metrics):
    spoiler = Spoiler(shutil.copytree(recorded, tmp_path / "run"))
    spoiler.tokens(lambda tokens: tokens["mask"].__setitem__(-1, 0))
    done = call(spoiler.run_dir, "--json")
    data = json.loads(done.stdout)
    assert (done.exit_code, data["ok"], data["rows"]["ending_on_mask_0"]) == (1, False, 1)
    assert data["rollouts"]["recorded"] == 3
    assert data["rows"]["trainable"]["max"] >= data["rows"]["trainable"]["min"] > 0
    assert sum(data["weight_versions"].values()) == data["rows"]["trainable_tokens"]
    assert data["sampler_and_trainer"] is None
    assert {v["kind"] for v in data["violations"]} >= {"malformed"}


def test_agreement_of_sampler_and_trainer_is_that_of_verls_metrics(call, recorded, tmp_path):
    run = shutil.copytree(recorded, tmp_path / "run")
    steps = [
        {
            "training/rollout_probs_diff_mean": 0.001 * step,
            "training/rollout_probs_diff_max": 0.01 * step,
            "training/rollout_probs_diff_std": 0.002,
            "training/rollout_actor_probs_pearson_corr": 1 - 0.001 * step,
        }
        for step in (1, 2, 3)
    ]
    lines = [json.dumps({"step": n, "data": values}) + "\n" for n, values in enumerate(steps, 1)]
    (run / "metrics.jsonl").write_text("".join(lines))
    found = json.loads(call(run, "--json").stdout)["sampler_and_trainer"]
    assert (found["steps"], found["abs_diff_max"]) == (3, 0.03)
    assert found["abs_diff_mean"] == pytest.approx(0.002)
    assert found["correlation_min"] == pytest.approx(0.997)
    assert "worst step 0.997" in call(run).stdout


def test_a_sample_looks_at_some_and_an_empty_one_proves_nothing(call, recorded):
    assert json.loads(call(recorded, "--sample", "0.5", "--json").stdout)["rollouts"]["audited"] < 3
    done = call(recorded, "--sample", "0.000001")
    assert done.exit_code == 2
    assert "--sample" in done.stderr


@pytest.mark.parametrize("what", ["empty directory", "file", "nothing"])
def test_what_is_no_run_exits_with_2(call, tmp_path, what):
    path = tmp_path / "x"
    if what == "empty directory":
        path.mkdir()
    elif what == "file":
        path.write_text("x")
    done = call(path)
    assert done.exit_code == 2
    assert str(path.name) in done.stderr
