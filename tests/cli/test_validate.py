"""`swe-plugin validate`: real tasks in the sandbox, the lists it writes, and how it stops."""

import json
import signal
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner
from validation.cases import BAD, GOOD, script, variant

from swe_plugin.cli.app import build_app
from swe_plugin.data.files import read_tasks

from .running import assert_stopped, leases, lines_of, running, wait_for

pytestmark = pytest.mark.slow

GOOD_TOO = variant("good-too")


def write(path, *tasks):
    path.write_text("".join(f"{task.to_json()}\n" for task in tasks))
    return str(path)


@pytest.fixture
def call(tmp_path):
    def call(*words):
        return CliRunner().invoke(build_app(), [*words, "--out", str(tmp_path / "out")])

    return call


def test_the_keep_list_goes_into_prepare(call, tmp_path):
    bad = [BAD["wrong-fix"], BAD["proves-nothing"], BAD["no-image"]]
    rows = write(tmp_path / "rows.jsonl", GOOD, *bad, GOOD_TOO)
    done = call("validate", rows, "--json", "--repeat", "1", "swe.failure.max_attempts=1")
    data = json.loads(done.stdout)
    assert done.exit_code == 1, done.output
    assert (data["tasks"], data["kept"]) == (5, 2)
    assert {item["instance_id"]: item["verdict"] for item in data["left_out"]} == {
        "wrong-fix": "gold fails",
        "proves-nothing": "empty passes",
        "no-image": "broken image",
    }
    assert [(item["image"], item["broken"]) for item in data["images"]] == [("rootfs:/no/such/directory", 1)]
    assert json.loads((tmp_path / "out/report.json").read_text()) | {"keep_list": data["keep_list"]} == data
    prepared = CliRunner().invoke(
        build_app(), ["prepare", "tasks", rows, "--keep", data["keep_list"], "--out", str(tmp_path / "data"), "--json"]
    )
    assert prepared.exit_code == 0, prepared.output
    kept = list(read_tasks(tmp_path / "data/train.parquet", "rows"))
    assert [task.to_json() for task in kept] == [GOOD.to_json(), GOOD_TOO.to_json()]
    assert call("validate", str(tmp_path / "data/train.parquet"), "--repeat", "1").exit_code == 0


def test_the_report_says_what_and_why(call, tmp_path):
    done = call("validate", write(tmp_path / "rows.jsonl", GOOD, BAD["wrong-fix"]), "--repeat", "1")
    text = " ".join(done.stdout.split())
    assert done.exit_code == 1
    for words in ("gold fails", "wrong-fix: 1 of 2 tests fail", "kept 1 of 2", "keep.txt"):
        assert words in text
    assert "good good (" in done.stderr  # no terminal: a line per task


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("no-such-dataset",), "no-such-dataset"),
        (("demo", "swe.slots.runing=3"), "swe.slots.running"),
        (("demo", "--backend", "nowhere"), "nowhere"),
        (("demo", "swe.environment.disk_mib=900"), "swe.environment.disk_mib"),
    ],
)
def test_mistakes_are_one_line_and_start_nothing(call, tmp_path, words, reason):
    done = call("validate", *words)
    assert done.exit_code == 2
    assert reason in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopping_leaves_no_environment_and_the_next_call_goes_on(tmp_path, number, code):
    stuck = variant("stuck", grading__tests=script("sleep 300\n"), grading__timeout_s=300.0)
    rows = write(tmp_path / "rows.jsonl", GOOD, stuck)
    words = ["validate", rows, "--out", str(tmp_path / "out"), "--jobs", "1", "--repeat", "1"]
    with running(tmp_path, *words) as process:
        wait_for(lambda: lines_of(tmp_path / "out/done.jsonl"), process)
        time.sleep(1)  # the second task is at work
        held = leases(tmp_path)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert_stopped(process, code, err, tmp_path, held)
    assert b"goes on from here" in err
    write(Path(rows), GOOD)
    again = CliRunner().invoke(build_app(), words)
    assert again.exit_code == 0, again.output
    assert "good good" not in again.stderr  # it was known
