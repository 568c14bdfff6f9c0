"""`swe-plugin try`: one real episode in the sandbox, whoever answers."""

import dataclasses
import json
import os
import signal
import time
from pathlib import Path

import pytest
from policies.openai_server import openai_server
from typer.testing import CliRunner

from swe_plugin.cli.app import build_app
from swe_plugin.data.demo import demo_tasks
from swe_plugin.trajectories.store import load_trajectory
from swe_plugin.types import Image

from .running import assert_stopped, leases, running

pytestmark = pytest.mark.slow

TASK = demo_tasks()[0]
NAME = TASK.instance_id
FIX = "sed -i '3s/return.*/return a + b/' *.py"


@pytest.fixture
def call(tmp_path):
    def call(*words):
        return CliRunner().invoke(build_app(), ["try", *words, "--out", str(tmp_path / "run")])

    return call


@pytest.fixture
def script(tmp_path):
    def write(content):
        path = tmp_path / "script.yaml"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    return write


def test_the_gold_patch_has_reward_1_and_a_record(call):
    done = call(NAME, "--policy", "gold", "--json")
    data = json.loads(done.stdout)
    assert done.exit_code == 0
    assert (data["instance_id"], data["reward"], data["resolved"], data["stop_reason"]) == (
        NAME,
        1.0,
        True,
        "submitted",
    )
    assert data["grade"]["fail_to_pass"] == {"passed": 2, "total": 2} == data["grade"]["pass_to_pass"]
    assert {"start", "exec", "grade", "total"} <= data["timings"].keys()
    recorded = load_trajectory(Path(data["record"]))
    assert (recorded.result.reward, recorded.result.patch) == (1.0, data["patch"])


def test_doing_nothing_has_reward_0_and_is_no_error(call):
    done = call(NAME, "--policy", "empty", "--json")
    assert (done.exit_code, json.loads(done.stdout)["reward"]) == (0, 0.0)


def test_the_episode_is_shown_turn_by_turn(call, script):
    done = call(NAME, "--policy", "scripted", "--script", script(["head -3 *.py", "echo no >&2; false", FIX]))
    assert done.exit_code == 0
    shown = [
        NAME,
        TASK.problem_statement,
        "turn 1",
        "$ head -3 *.py",
        "return a - b",
        "exit 0",
        "turn 2",
        "$ echo no >&2; false",
        "no\n",
        "exit 1",
        f"$ {FIX}",
        "submitted",
        "+    return a + b",
        "2 of 2 passed",
        "1 (resolved)",
        "record",
    ]
    places = [done.stdout.find(text) for text in shown]
    assert -1 not in places
    assert places == sorted(places)


def test_answers_are_taken_word_for_word(call, script):
    answers = {"answers": ["no block", f"I fix it.\n```bash\n{FIX}\n```", "```bash\nsubmit\n```"]}
    done = call(NAME, "--policy", "scripted", "--script", script(answers))
    assert (done.exit_code, "no action: expected exactly one bash block" in done.stdout) == (0, True)
    assert "I fix it." in done.stdout
    assert "```" not in done.stdout


def test_commands_are_written_as_the_agent_writes_them(call, script):
    words = (
        NAME,
        "--policy",
        "scripted",
        "--script",
        script({"commands": [FIX]}),
        "swe.scaffold.action=tools",
        "--json",
    )
    assert json.loads(call(*words).stdout)["reward"] == 1.0


@pytest.mark.slow
def test_a_hosted_model_is_asked_and_billed_and_its_key_is_not_recorded(call, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-this-test-only")
    answers = [{"content": f"```bash\n{command}\n```"} for command in ("head -3 *.py", FIX, "submit")]
    with openai_server(*answers) as server:
        words = (
            "--policy",
            "litellm:openai/gpt-4o-mini",
            f"swe.policy.litellm={{api_base: {server.base}, temperature: 0}}",
        )
        done = call(NAME, *words, "--json")
    data = json.loads(done.stdout)
    assert (done.exit_code, data["reward"], data["turns"]) == (0, 1.0, 3)
    assert (data["usage"]["calls"], data["usage"]["completion_tokens"]) == (3, 21)
    assert data["usage"]["cost_usd"] > 0
    assert "return a - b" in server.requests[1][2]["messages"][-1]["content"]
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert any(f'"calls": {data["usage"]["calls"]}' in path.read_text() for path in files)
    assert not [path for path in files if "sk-of-this-test-only" in path.read_text()]


def test_a_model_that_cannot_be_reached_is_no_verdict(call, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-this-test-only")
    with openai_server((503, {"message": "closed"})) as server:
        words = (
            f"swe.policy.litellm.api_base={server.base}",
            "swe.policy.max_attempts=1",
            "swe.failure.max_attempts=1",
        )
        done = call(NAME, "--policy", "litellm:openai/m", *words, "--json")
    data = json.loads(done.stdout)
    assert (done.exit_code, data["reward"], data["stop_reason"]) == (1, None, "model_error")
    assert "closed" in data["failures"][0]["error"]
    assert "no verdict (model_error)" in done.stderr


def test_an_environment_that_does_not_start_is_no_verdict(call):
    words = ("--backend", "dummy", "swe.environment.options.fail_start=no room", "swe.failure.max_attempts=1", "--json")
    done = call(NAME, "--policy", "empty", *words)
    assert (done.exit_code, json.loads(done.stdout)["stop_reason"]) == (1, "environment_start")
    assert "no room" in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((NAME[:-1], "--policy", "gold"), "did you mean demo__"),
        ((NAME, "--policy", "glod"), "did you mean gold?"),
        ((NAME, "--policy", "scripted"), "needs a file of commands or answers"),
        ((NAME, "--policy", "scripted", "--script", "/nowhere.yaml"), "cannot be read: No such file"),
        ((NAME, "--policy", "gold", "--script", "x.yaml"), "goes with --policy scripted"),
        ((NAME, "--policy", "litellm:gpt"), "write litellm:<provider>/<model>"),
        ((NAME, "--policy", "gold", "--backend", "sandbax"), "did you mean 'sandbox'"),
        ((NAME, "--policy", "gold", "--dataset", "dmo"), "did you mean 'demo'"),
        ((NAME, "--policy", "gold", "--dataset", "nowhere.jsonl"), "cannot be read: No such file"),
        ((NAME, "--policy", "gold", "--dataset", __file__), "a file of tasks ends in .jsonl or .parquet"),
        ((NAME, "--policy", "gold", "swe.scafold.max_turns=3"), "did you mean swe.scaffold"),
        ((NAME, "--policy", "gold", "trainer.nnodes=3"), "only swe.* keys mean something here"),
        ((NAME, "--policy", "gold", "swe.plugins=[nobody]"), "'nobody' is not installed"),
        ((NAME, "--policy", "gold", "swe.grading.grader=test"), "did you mean 'tests'"),
        ((NAME, "--policy", "gold", "swe.environment.disk_mib=9000"), "swe.environment.disk_mib=9000: must be at most"),
    ],
)
def test_a_mistake_is_one_line_and_starts_nothing(call, tmp_path, words, says):
    done = call(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_place_for_the_record_is_checked_first(tmp_path):
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(build_app(), ["try", NAME, "--policy", "gold", "--out", str(tmp_path / "file" / "run")])
    assert (done.exit_code, "file: is not a directory" in done.stderr) == (2, True)
    done = CliRunner().invoke(build_app(), ["try", NAME, "--policy", "gold", "--out", "/proc/run"])
    assert (done.exit_code, done.stderr.count("\n"), "cannot write there: /proc: " in done.stderr) == (2, 1, True)


def test_a_task_without_reference_fix_is_said_before_anything_starts(call, tmp_path):
    (tmp_path / "tasks.jsonl").write_text(dataclasses.replace(TASK, gold_patch="").to_json() + "\n")
    done = call(NAME, "--policy", "gold", "--dataset", str(tmp_path / "tasks.jsonl"))
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "has no gold_patch" in done.stderr


def test_an_image_that_is_not_there_is_said_before_anything_starts(call, tmp_path):
    (tmp_path / "tasks.jsonl").write_text(dataclasses.replace(TASK, image=Image("rootfs:/no/such")).to_json() + "\n")
    done = call(NAME, "--policy", "empty", "--dataset", str(tmp_path / "tasks.jsonl"))
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "rootfs:/no/such" in done.stderr


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{a: [", "no YAML or JSON"),
        ("word", "must be a list of commands"),
        ({"command": ["ls"]}, "must be a list of commands"),
        ([], "at least one item"),
        (["ls", 3], "commands, item 2: 3 must be a text in quotes"),
    ],
)
def test_a_wrong_script_is_named_with_the_item(call, script, content, says):
    done = call(NAME, "--policy", "scripted", "--script", script(content))
    assert (done.exit_code, says in done.stderr) == (2, True)


def typing(tmp_path, *words):
    return running(tmp_path, "try", NAME, "--policy", "keyboard", "--out", tmp_path / "run", *words)


def test_a_human_types_commands_and_the_end_of_input_submits(tmp_path):
    with typing(tmp_path) as process:
        out, _ = process.communicate(f"head -3 *.py\n\nif true; \\\nthen {FIX}; fi\n".encode(), timeout=120)
    text = out.decode()
    assert process.returncode == 0
    assert text.index("command> ") < text.index("$ head -3 *.py") < text.index("return a - b") < text.index("then sed")
    assert "1 (resolved)" in text


def test_typed_commands_leave_stdout_to_the_object(tmp_path):
    with typing(tmp_path, "--json") as process:
        out, err = process.communicate(b"submit\n", timeout=120)
    assert (json.loads(out)["reward"], b"command> " in err) == (0.0, True)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopping_leaves_nothing(tmp_path, number, code):
    with typing(tmp_path) as process:
        seen = b""
        while b"command> " not in seen:
            chunk = os.read(process.stdout.fileno(), 4096)
            assert chunk, process.stderr.read()
            seen += chunk
        held = leases(tmp_path)
        began = time.monotonic()
        process.send_signal(number)
        process.wait(timeout=60)  # before its input ends, which would be a submission
        err = process.stderr.read()
    assert_stopped(process, code, err, tmp_path, held)
    assert time.monotonic() - began < 20
    assert b"nothing is left" in err
    assert not (tmp_path / "run").exists()
