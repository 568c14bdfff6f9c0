"""`swe-plugin tasks`: what a dataset holds, without giving answers away."""

import json

import pytest
from typer.testing import CliRunner

from swe_plugin.cli.app import build_app
from swe_plugin.data.demo import demo_tasks

TASK = demo_tasks()[0]


@pytest.fixture
def call():
    return lambda *words: CliRunner().invoke(build_app(), ["tasks", *words], env={"COLUMNS": "200"})


def test_the_list_as_data_has_a_line_per_task(call):
    listed = json.loads(call("--json").stdout)
    assert len(listed) == len(demo_tasks())
    assert listed[0] == {
        "instance_id": TASK.instance_id,
        "repo": TASK.repo,
        "split": "train",
        "problem": TASK.problem_statement,
        "fail_to_pass": 2,
        "pass_to_pass": 2,
    }
    assert len(json.loads(call("--json", "--limit", "3").stdout)) == 3


def test_the_table_says_how_much_it_leaves_out(call):
    done = call("--limit", "3")
    assert (done.exit_code, TASK.instance_id in done.stdout) == (0, True)
    assert f"3 of {len(demo_tasks())}; --limit 0 lists all" in done.stdout


@pytest.mark.parametrize("form", ["--json", ""])
def test_a_task_is_shown_without_what_gives_the_answer_away(call, form):
    words = [form] if form else []
    shown, revealed = (call(TASK.instance_id, *words, *more).stdout for more in ([], ["--reveal"]))
    assert TASK.problem_statement in shown
    for secret in ("return a + b", "PROBE", "+++"):
        assert secret not in shown
        assert secret in revealed


def test_a_file_is_a_dataset(call, tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text(f"{TASK.to_json()}\n{{}}\n")
    assert call(TASK.instance_id, "--dataset", str(path)).exit_code == 0
    done = call("--dataset", str(path))
    assert (done.exit_code, "row 2, column instance_id: missing" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "says"),
    [(("demo__orchard-scor-1",), "did you mean demo__orchard-score-1?"), (("--dataset", "dmo"), "did you mean 'demo'")],
)
def test_a_wrong_name_gets_the_nearest(call, words, says):
    done = call(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert says in done.stderr
