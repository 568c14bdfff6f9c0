"""One directory per rollout: complete, exact, free of secrets, and never outside the run."""

from __future__ import annotations

import asyncio
import fcntl
import json
import math
import os
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_plugin.trajectories import TrajectoryStore, find_trajectories, load_trajectory, store
from swe_plugin.trajectories.names import safe_name
from swe_plugin.trajectories.redact import MARK, Redactor
from swe_plugin.types import (
    AttemptFailure,
    ExecResult,
    Grade,
    GradingSpec,
    Message,
    RolloutResult,
    Segment,
    Span,
    StopReason,
    Task,
    TestStatus,
    ToolCall,
    Turn,
)

ODD = 'é \x00 \ud800 \udcff \r\n \u2028 "quoted" </script>'


def rollout(instance_id: str = "repo__name-1", text: str = "text", **changes: object) -> RolloutResult:
    spans = [Span(0, 2, "prompt", 0), Span(2, 4, "sampled", 0)]
    fields = {
        "task": Task(
            instance_id,
            text,
            grading=GradingSpec(["run"], tests={"t": text}, fail_to_pass=["a b"], pass_to_pass=[], protected=[]),
        ),
        "session": 3,
        "stop": StopReason.SUBMITTED,
        "reward": 1.0,
        "grade": Grade(True, {"a b": TestStatus.PASSED}, ("tests_edited",), 1.5, False, text),
        "patch": "diff --git a/x b/x\n-a\r\n+b\r\n\\ No newline at end of file\n",
        "messages": [
            Message("user", text),
            Message("assistant", text, (ToolCall("bash", {"command": text}, "c0"),)),
            Message("tool", text, tool_call_id="c0"),
        ],
        "turns": [Turn([text], [ExecResult(text, text, -1, 0.5, True, True)]), Turn(format_error=text)],
        "segments": [Segment([5, 6, 7, 8], [0, 0, 1, 1], [0.0, 0.0, -0.1, -1 / 3], [-1, -1, 4, 4], spans, 2)],
        "timings": {"total": 1.25},
        "failures": [
            AttemptFailure("agent", 1, text, text, StopReason.ENVIRONMENT_LOST),
            AttemptFailure("grade", 1, text),
        ],
        "n_format_errors": 1,
        "flags": ("tests_edited",),
    }
    return RolloutResult(**{**fields, **changes})


@pytest.mark.parametrize("text", ["text", ODD])
async def test_what_is_read_back_is_what_was_written(tmp_path, text):
    result = rollout(text=text)
    path = await TrajectoryStore(tmp_path).save(result, step=7, phase="val")
    assert path == tmp_path / "step_7" / "val" / "repo__name-1@3"
    read = load_trajectory(path)
    assert (read.step, read.phase, read.path) == (7, "val", path)
    assert read.result == result


async def test_the_files_are_readable_by_anyone(tmp_path):
    path = await TrajectoryStore(tmp_path).save(rollout(), step=1, phase="train")
    assert {file.name for file in path.iterdir()} == {
        "trajectory.json", "tokens.json", "patch.diff", "grade.json", "failure_1.txt", "failure_2.txt",
    }  # fmt: skip
    data = json.loads((path / "trajectory.json").read_text())
    assert data["segments"] == [{"prompt_length": 2, "spans": [[0, 2, "prompt", 0], [2, 4, "sampled", 0]]}]
    assert (path / "patch.diff").read_bytes() == rollout().patch.encode()
    assert "attempt 1, agent: text" in (path / "failure_1.txt").read_text()


async def test_each_key_and_each_message_has_its_line(tmp_path):
    path = await TrajectoryStore(tmp_path).save(rollout(text="a\nb"), step=0, phase="train")
    lines = (path / "trajectory.json").read_text().split("\n")
    assert sum(line.startswith('  {"role": ') for line in lines) == 3
    assert ' "reward": 1.0,' in lines


async def test_a_rollout_without_grade_and_tokens_is_stored_too(tmp_path):
    result = rollout(grade=None, reward=None, segments=[], patch="", stop=StopReason.ENVIRONMENT_START)
    path = await TrajectoryStore(tmp_path).save(result, step=1, phase="train")
    assert not (path / "grade.json").exists()
    assert load_trajectory(path).result == result


async def test_a_log_prob_may_be_infinite(tmp_path):
    segment = Segment([1], [1], [-math.inf], [0], [Span(0, 1, "sampled", 0)], 0)
    path = await TrajectoryStore(tmp_path).save(rollout(segments=[segment]), step=1, phase="train")
    assert load_trajectory(path).result.segments == [segment]


async def test_the_same_name_again_does_not_overwrite(tmp_path):
    store = TrajectoryStore(tmp_path)
    paths = await asyncio.gather(*(store.save(rollout(), step=1, phase="train") for _ in range(8)))
    assert len({path.name for path in paths}) == 8
    assert "repo__name-1@3.2" in {path.name for path in paths}
    assert sorted(find_trajectories(tmp_path)) == sorted(paths)


async def test_a_sweep_that_comes_before_the_lock_costs_no_record(tmp_path, monkeypatch):
    made, real = [], tempfile.mkdtemp

    def swept_at_once(**kwargs):
        made.append(real(**kwargs))
        if len(made) == 1:
            store.remove_partial(tmp_path.parent)
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", swept_at_once)
    path = await TrajectoryStore(tmp_path).save(rollout(), step=1, phase="train")
    assert len(made) == 2
    assert load_trajectory(path).step == 1


async def test_trajectories_are_found_in_order_of_their_steps(tmp_path):
    store = TrajectoryStore(tmp_path)
    for step in (10, 9, 0):
        await store.save(rollout(), step=step, phase="train")
    assert [load_trajectory(path).step for path in find_trajectories(tmp_path)] == [0, 9, 10]


async def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("swe_plugin.trajectories.store._publish", full)
    with pytest.raises(OSError, match="No space"):
        await TrajectoryStore(tmp_path).save(rollout(), step=1, phase="train")
    assert list((tmp_path / "step_1" / "train").iterdir()) == []
    assert list(find_trajectories(tmp_path)) == []


async def test_what_a_killed_process_left_is_gone_after_the_next_start(tmp_path):
    """kill -9 in the middle of a write; the half-written rollout of a process that lives stays."""
    left, alive = (tmp_path / "before" / "step_1" / "train" / f".partial-{name}" for name in ("left", "alive"))
    for path in (left, alive):
        path.mkdir(parents=True)
        (path / "trajectory.json").write_text("{")
    lock = os.open(alive, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_SH)
    await TrajectoryStore(tmp_path / "now").save(rollout(), step=1, phase="train")
    os.close(lock)
    assert not left.exists()
    assert alive.exists()


async def test_a_rollout_is_locked_while_it_is_written(tmp_path, monkeypatch):
    def write(partial, *_):
        (partial / "trajectory.json").write_text("{}")
        store.remove_partial(tmp_path)

    monkeypatch.setattr(store, "_write", write)
    path = await TrajectoryStore(tmp_path / "run").save(rollout(), step=1, phase="train")
    assert (path / "trajectory.json").exists()


async def test_secrets_of_this_process_never_reach_the_disk(tmp_path, monkeypatch):
    secrets = {
        "WANDB_API_KEY": "wandb-0123456789",
        "HF_TOKEN": "hf_abc\ndef-second-line",
        "DB_PASSWORD": 'p"w\\with-quotes',
        "AWS_SECRET_ACCESS_KEY": "aws/secret+key=",
        "wandb_apikey": "lowercase-name-1",
    }
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "harmless-value")
    text = " ".join(secrets.values()) + " harmless-value"
    result = rollout(text=text, patch=text, timings={"wandb-0123456789": 1.0})
    path = await TrajectoryStore(tmp_path).save(result, step=1, phase="train")
    for file in path.iterdir():
        content = file.read_text()
        for value in secrets.values():
            assert value not in content
            assert json.dumps(value)[1:-1] not in content
        assert file.name == "tokens.json" or MARK in content or file.name == "grade.json"
    assert "harmless-value" in load_trajectory(path).result.patch


@pytest.mark.parametrize(
    "name", ["PGPASSWORD", "SSHPASS", "GITHUB_PAT", "MYTOKEN", "HUB_TOKEN2", "KAGGLE_KEY", "DOCKER_PASS", "X_SECRET_ID"]
)
def test_names_of_secrets_are_known(name):
    assert Redactor({name: "hunter22"}).text("hunter22") == MARK


@pytest.mark.parametrize("name", ["PWD", "PATH", "TOKENIZERS_PARALLELISM", "KEYBOARD"])
def test_ordinary_variables_stay_readable(name):
    assert Redactor({name: "/testbed"}).text("/testbed") == "/testbed"


def test_passwords_in_urls_of_any_variable_are_secrets():
    redact = Redactor({"HTTPS_PROXY": "http://me:hunter22@proxy:3128"})
    assert redact.text("http://me:hunter22@proxy:3128 hunter22") == f"http://me:{MARK}@proxy:3128 {MARK}"


def test_the_longest_secret_goes_first_and_short_values_stay():
    redact = Redactor({"A_TOKEN": "secret-1", "B_TOKEN": "secret-1-longer", "C_KEY": "none", "D_AUTH": "true"})
    assert redact.text("secret-1-longer secret-1 none true") == f"{MARK} {MARK} none true"
    assert redact.data({"secret-1": [1, "secret-1", None]}) == {MARK: [1, MARK, None]}


@pytest.mark.parametrize(
    "instance_id",
    [
        "../../etc/passwd",
        "/abs",
        "..",
        ".",
        "",
        "a/b",
        "a\0b",
        ".hidden",
        "-rf",
        "x" * 500,
        "é",
        "a@b",
        "\ud800",
        "a\nb",
    ],
)
async def test_an_instance_id_cannot_leave_the_run_directory(tmp_path, instance_id):
    path = await TrajectoryStore(tmp_path).save(rollout(instance_id), step=1, phase="train")
    assert path.parent == tmp_path / "step_1" / "train"
    assert path.resolve().parent == path.parent.resolve()
    assert load_trajectory(path).result.task.instance_id == instance_id


@given(st.text(st.characters()), st.text(st.characters()))
def test_names_are_safe_and_tell_ids_apart(one, other):
    names = [safe_name(one), safe_name(other)]
    for name in names:
        assert name
        assert name not in (".", "..")
        assert name[0] not in ".-"
        assert len(os.fsencode(name)) < 200
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-")
    assert (names[0] == names[1]) == (one == other)


def test_an_ordinary_id_is_its_own_name():
    assert safe_name("django__django-11099") == "django__django-11099"


async def test_a_phase_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(ValueError, match="train or val"):
        await TrajectoryStore(tmp_path).save(rollout(), step=1, phase="../x")


def test_another_format_is_refused(tmp_path):
    for name, text in (("trajectory.json", "{}"), ("tokens.json", "[]"), ("patch.diff", "")):
        (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match="format=None"):
        load_trajectory(tmp_path)
