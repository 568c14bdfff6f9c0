"""`swe-plugin eval`: a dataset in the sandbox, whoever answers."""

import contextlib
import json
import signal
import time

import psutil
import pytest
from policies.openai_server import openai_server
from typer.testing import CliRunner

from swe_plugin.cli.app import build_app
from swe_plugin.data.demo import demo_tasks
from swe_plugin.evaluation.samples import sample_seed

from .running import leases, running, wait_for

pytestmark = pytest.mark.slow

NAMES = [task.instance_id for task in demo_tasks()[:3]]
THREE = ("--only", "demo__orchard-score-[123]")


@pytest.fixture
def call(tmp_path):
    def call(*words, out="out"):
        return CliRunner().invoke(build_app(), ["eval", *words, "--out", str(tmp_path / out)])

    return call


def lines(directory):
    return [json.loads(line) for line in (directory / "results.jsonl").read_text().splitlines()]


def test_gold_resolves_everything_and_leaves_what_swe_bench_can_grade(call, tmp_path):
    done = call("--policy", "gold", *THREE, "--json")
    data = json.loads(done.stdout)
    assert (done.exit_code, data["total"]["graded"], data["total"]["passed"]) == (0, 3, 3)
    assert data["total"]["pass_at"]["1"]["value"] == 1.0
    assert data["repositories"]["orchard"]["tasks"] == 3
    assert (data["total"]["failed"], data["total"]["failure_rate"]) == (0, 0.0)
    out = tmp_path / "out"
    assert json.loads((out / "report.json").read_text()) | {"out": str(out)} == data
    predictions = json.loads((out / "preds.json").read_text())
    assert [*predictions] == NAMES
    for name, prediction in predictions.items():
        assert prediction["instance_id"] == name
        assert prediction["model_name_or_path"] == "gold"
        assert prediction["model_patch"].startswith("diff --git ")
    assert all((out / line["record"] / "trajectory.json").exists() for line in lines(out))


def test_its_predictions_can_be_graded_alone_and_mixed_ones_are_told_apart(call, tmp_path):
    assert call("--policy", "gold", *THREE).exit_code == 0
    predictions = json.loads((tmp_path / "out" / "preds.json").read_text())
    predictions[NAMES[1]]["model_patch"] = ""
    predictions[NAMES[2]]["model_patch"] = predictions[NAMES[0]]["model_patch"]
    (tmp_path / "mixed.json").write_text(json.dumps([*predictions.values()]))
    words = ("--predictions", str(tmp_path / "mixed.json"), "--only", "demo__orchard-score-*")
    done = call(*words, "--json", out="graded")
    data = json.loads(done.stdout)
    assert (done.exit_code, data["total"]["graded"], data["total"]["passed"], data["unpredicted"]) == (0, 3, 1, 5)
    assert {line["instance_id"]: line["resolved"] for line in lines(tmp_path / "graded")} == dict(
        zip(NAMES, (True, False, False), strict=True)
    )
    assert {line["model"] for line in lines(tmp_path / "graded")} == {"gold"}
    assert "without a prediction, and in no rate: 5 tasks" in call(*words, out="graded").stdout


def test_predictions_of_several_samples_have_a_pass_at_k(call, tmp_path):
    assert call("--policy", "gold", *THREE).exit_code == 0
    nothing = [{"instance_id": name, "model_patch": None, "model_name_or_path": "m"} for name in NAMES]
    (tmp_path / "nothing.jsonl").write_text("".join(json.dumps(item) + "\n" for item in nothing))
    words = ("--predictions", str(tmp_path / "out" / "preds.json"), "--predictions", str(tmp_path / "nothing.jsonl"))
    data = json.loads(call(*words, "--json", out="graded").stdout)
    assert {k: found["value"] for k, found in data["total"]["pass_at"].items()} == {"1": 0.5, "2": 1.0}


def test_a_second_run_does_only_what_is_missing(call, tmp_path):
    first = call("--policy", "gold", "--only", NAMES[0])
    assert (first.exit_code, len(lines(tmp_path / "out"))) == (0, 1)
    second = call("--policy", "gold", *THREE, "--samples", "2", "--json")
    assert (second.exit_code, json.loads(second.stdout)["total"]["samples"]) == (0, 6)
    keys = [(line["instance_id"], line["session"]) for line in lines(tmp_path / "out")]
    assert len(keys) == len(set(keys)) == 6
    before = (tmp_path / "out" / "results.jsonl").read_bytes()
    third = call("--policy", "gold", *THREE, "--samples", "2", "--json")
    assert (third.stdout, (tmp_path / "out" / "results.jsonl").read_bytes()) == (second.stdout, before)
    assert json.loads((tmp_path / "out" / "preds_1.json").read_text()).keys() == set(NAMES)


def test_the_table_says_rate_interval_and_failures(call):
    done = call("--policy", "empty", *THREE)
    assert done.exit_code == 0
    for text in ("orchard", "3 of 3", "0.000 [0.000, 0.5", "0 (0.0%)", "flags: empty_patch 3", "report.json"):
        assert text in done.stdout, text


def test_failures_are_in_no_rate_and_make_the_exit_code_1(call, tmp_path):
    words = ("--policy", "empty", *THREE, "swe.failure.max_attempts=1", "--backend", "dummy")
    done = call(*words, "swe.environment.options.fail_start=no room", "--json")
    data = json.loads(done.stdout)
    assert (done.exit_code, data["total"]["failed"], data["total"]["failure_rate"]) == (1, 3, 1.0)
    assert data["total"]["pass_at"] == {"1": None}
    assert data["failures"] == {"environment_start": 3}
    assert "3 samples have no verdict" in done.stderr
    assert not (tmp_path / "out" / "preds.json").exists()


def test_a_backend_that_is_dead_stops_the_evaluation(call):
    words = ("--policy", "empty", "--backend", "dummy", "swe.environment.options.fail_start=no room")
    done = call(*words, "swe.failure.max_attempts=1", "swe.failure.breaker_failures=4", "--limit", "50")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "rollouts failed in a row" in done.stderr
    assert "no room" in done.stderr


@pytest.mark.slow
def test_a_served_model_gets_the_same_seeds_whatever_runs_first(call, tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    sampling = ("--policy", "litellm:openai/my-model", "--temperature", "0.7", "--seed", "3", "--samples", "2")
    answer = {"content": "```bash\nsed -i '3s/return.*/return a + b/' *.py && echo did\n```"}
    seen = []
    for concurrency in ("1", "4"):
        with openai_server(answer) as server:
            words = (*sampling, "--api-base", server.base, "swe.scaffold.max_turns=1", "--concurrency", concurrency)
            done = call(*words, *THREE, "--json", out=concurrency)
        data = json.loads(done.stdout)
        assert (done.exit_code, data["total"]["graded"], data["total"]["passed"]) == (0, 6, 2), done.stderr
        assert data["usage"]["calls"] == 6
        bodies = [body for _, _, body in server.requests]
        assert {body["temperature"] for body in bodies} == {0.7}
        seen.append(sorted(body["seed"] for body in bodies))
    assert seen[0] == seen[1] == sorted(sample_seed(3, name, session) for name in NAMES for session in (0, 1))
    assert json.loads((tmp_path / "1" / "preds.json").read_text())[NAMES[0]]["model_name_or_path"] == "openai/my-model"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "give either --policy or --predictions"),
        (("--policy", "gold", "--predictions", "p.json"), "give either --policy or --predictions"),
        (("--policy", "glod"), "did you mean gold?"),
        (("--policy", "keyboard"), "There are gold, empty, scripted and litellm:"),
        (("--policy", "gold", "--k", "2"), "--k=2: must be from 1 to the number of samples, 1"),
        (("--predictions", "nowhere.json"), "cannot be read: No such file"),
        (("--predictions", "nowhere.json", "-n", "2"), "once per sample"),
        (("--policy", "gold", "--only", "nobody*"), "not one task is left"),
        (("--policy", "gold", "--split", "nobody"), "not one task is left"),
        (("--policy", "gold", "--keep", "nowhere.txt"), "cannot be read"),
        (("--policy", "gold", "--backend", "sandbax"), "did you mean 'sandbox'"),
        (("--policy", "gold", "--dataset", "dmo"), "did you mean 'demo'"),
        (("--policy", "gold", "swe.scafold.max_turns=3"), "did you mean swe.scaffold"),
        (("--policy", "gold", "swe.plugins=[nobody]"), "'nobody' is not installed"),
        (("--policy", "gold", "swe.policy.litellm.seed=3"), "write --seed"),
    ],
)
def test_a_mistake_is_one_line_and_starts_nothing(call, tmp_path, words, says):
    done = call(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_another_policy_does_not_mix_with_earlier_results(call, tmp_path):
    assert call("--policy", "gold", *THREE).exit_code == 0
    before = (tmp_path / "out" / "results.jsonl").read_bytes()
    done = call("--policy", "empty", *THREE)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "policy='empty': was 'gold' when" in done.stderr
    assert (tmp_path / "out" / "results.jsonl").read_bytes() == before


def test_predictions_about_other_tasks_are_said(call, tmp_path):
    (tmp_path / "p.json").write_text(json.dumps([{"instance_id": "x", "model_patch": "", "model_name_or_path": ""}]))
    done = call("--predictions", str(tmp_path / "p.json"))
    assert (done.exit_code, "is about none of these tasks" in done.stderr) == (2, True)


def evaluating(tmp_path, *words):
    return running(tmp_path, "eval", *words, "--out", tmp_path / "out")


def sleeping(process):
    """Agents of the evaluation that are at work."""
    found = 0
    for child in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            found += child.name() == "sleep"
    return found


@pytest.mark.slow
def test_ctrl_c_lets_what_runs_end_and_the_same_command_goes_on(tmp_path, call):
    (tmp_path / "script.json").write_text(json.dumps(["sleep 3"]))
    words = ("--policy", "scripted", "--script", str(tmp_path / "script.json"), *THREE, "--concurrency", "1")
    with evaluating(tmp_path, *words) as process:
        wait_for(lambda: sleeping(process) == 1, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert b"stopping when 1 running samples have ended" in err
    assert b"stopped after 1 samples; nothing is left running" in err
    assert b"not run: 2 samples; the same command goes on" in out
    assert [line["instance_id"] for line in lines(tmp_path / "out")] == NAMES[:1]
    assert json.loads((tmp_path / "out" / "preds.json").read_text()).keys() == {NAMES[0]}
    assert not leases(tmp_path)
    assert call(*words).exit_code == 0
    assert [line["instance_id"] for line in lines(tmp_path / "out")] == NAMES


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signals", "code"), [((signal.SIGINT, signal.SIGINT), 130), ((signal.SIGTERM,), 143)], ids=["twice", "term"]
)
def test_a_second_ctrl_c_or_sigterm_stops_at_once_and_leaves_nothing(tmp_path, signals, code):
    (tmp_path / "script.json").write_text(json.dumps(["sleep 600"]))
    words = ("--policy", "scripted", "--script", str(tmp_path / "script.json"), *THREE)
    with evaluating(tmp_path, *words) as process:
        wait_for(lambda: sleeping(process) == 3, process)
        for number in signals:
            process.send_signal(number)
            time.sleep(0.5)
        _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert b"Traceback" not in err
    assert not leases(tmp_path)
    assert (tmp_path / "out" / "results.jsonl").read_bytes() == b""
    assert json.loads((tmp_path / "out" / "report.json").read_text())["total"]["pending"] == 3
