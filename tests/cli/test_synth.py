"""`swe-plugin synth`: a repository becomes tasks in the sandbox, which `validate` and `prepare` take as they are."""

import json
import signal

import pytest
from synth.projects import FILES
from typer.testing import CliRunner

from swe_plugin.cli.app import build_app
from swe_plugin.data.files import read_tasks

from .running import assert_stopped, leases, lines_of, running, wait_for

pytestmark = pytest.mark.slow

KINDS = ["--kind", "wrong_function", "--kind", "negated_condition", "--kind", "return_none"]


@pytest.fixture
def repository(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "calc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "calc"


def call(*words):
    return CliRunner().invoke(build_app(), [*map(str, words)])


@pytest.mark.slow
def test_a_repository_becomes_tasks_that_validate_and_prepare_take(repository, tmp_path):
    words = ["synth", repository, "--count", 3, "--runs", 2, *KINDS, "--most-failing", 0.7, "--out", tmp_path / "made"]
    done = call(*words, "--json")
    assert done.exit_code == 0, done.output
    (project,) = json.loads(done.stdout)["projects"]
    assert (project["tasks"], project["tests"], project["failed"]) == (3, 7, {})
    assert len(project["kinds"]) > 1
    assert json.loads((tmp_path / "made/report.json").read_text()) == [project]
    tasks = list(read_tasks(tmp_path / "made/tasks.parquet", "rows"))
    assert [task.repo for task in tasks] == ["calc"] * 3
    again = call(*words)
    assert again.exit_code == 0, again.output
    assert list(read_tasks(tmp_path / "made/tasks.parquet", "rows")) == tasks
    assert "calc" in again.stdout
    checked = call("validate", tmp_path / "made/tasks.parquet", "--out", tmp_path / "checked", "--repeat", 1, "--json")
    report = json.loads(checked.stdout)
    assert checked.exit_code == 0, checked.output
    assert (report["kept"], report["order_checked"], report["mislabelled"], report["gold_flags"]) == (3, 3, {}, {})
    keep = ["--keep", tmp_path / "checked/keep.txt"]
    prepared = call("prepare", "tasks", tmp_path / "made/tasks.parquet", *keep, "--out", tmp_path / "data")
    assert prepared.exit_code == 0, prepared.output
    assert list(read_tasks(tmp_path / "data/train.parquet", "rows")) == tasks
    for policy, passed in (("gold", 3), ("empty", 0)):
        words = ["--policy", policy, "--dataset", tmp_path / "data/train.parquet", "--out", tmp_path / policy, "--json"]
        total = json.loads(call("eval", *words).stdout)["total"]
        assert (total["graded"], total["passed"]) == (3, passed)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["no-such-repository"], "no-such-repository"),
        (["calc", "--runs", "1"], "--runs"),
        (["calc", "--kind", "typo"], "--kind"),
        (["calc", "--hint", "all"], "--hint"),
        (["calc", "--statements", "gpt"], "--statements"),
        (["calc", "--with", "calc"], "every agent the fix"),
        (["calc", "--set", "swe.slots.runing=3"], "swe.slots.running"),
        (["calc", "--image", "rootfs:/no/such/place"], "/no/such/place"),
        (["empty"], "carries no tests"),
    ],
)
def test_mistakes_end_with_their_reason(repository, tmp_path, monkeypatch, words, reason):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    done = call("synth", *words, "--out", tmp_path / "made")
    assert done.exit_code == 2, done.output
    assert reason in " ".join(done.stderr.split())
    assert "Traceback" not in done.output
    assert not (tmp_path / "made/tasks.parquet").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopping_leaves_no_environment_and_keeps_what_was_tried(repository, tmp_path, number, code):
    out, tried = tmp_path / "made", tmp_path / "made/tried.jsonl"
    with running(tmp_path, "synth", repository, "--runs", 2, "--out", out) as process:
        wait_for(lambda: lines_of(tried) > 2, process)
        held = leases(tmp_path)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert_stopped(process, code, err, tmp_path, held)
    assert b"goes on from here" in err
    assert not (out / "tasks.parquet").exists()
    assert lines_of(tried) > 2
