"""The journal of an evaluation."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from swe_plugin.config import load_config
from swe_plugin.errors import ConfigError
from swe_plugin.evaluation.results import Results
from swe_plugin.evaluation.samples import Sample, plan
from swe_plugin.evaluation.settings import deciding, keep_settings

from .made import result, task

SAMPLES = plan([task("a"), task("b")], 2)


def test_what_was_written_is_there_the_next_time(tmp_path):
    with Results.opened(tmp_path / "new" / "out") as results:
        for sample, resolved in zip(SAMPLES, (True, None, False), strict=False):
            results.add(result(sample, resolved, flags=("empty_patch",), usage={"calls": 2.0}))
    with Results.opened(tmp_path / "new" / "out") as results:
        assert results.of(SAMPLES[0]) == result(SAMPLES[0], True, flags=("empty_patch",), usage={"calls": 2.0})
        assert results.missing(SAMPLES) == [SAMPLES[1], SAMPLES[3]], "a failure is tried again, a verdict is not"
        results.add(result(SAMPLES[1], False))
    with Results.opened(tmp_path / "new" / "out") as results:
        assert results.missing(SAMPLES) == [SAMPLES[3]]


def test_a_line_that_was_cut_by_a_death_is_cut_off(tmp_path):
    with Results.opened(tmp_path) as results:
        results.add(result(SAMPLES[0], True))
    path = tmp_path / "results.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:40])
    with Results.opened(tmp_path) as results:
        assert results.missing(SAMPLES[:2]) == SAMPLES[1:2]
        results.add(result(SAMPLES[1], True))
    with Results.opened(tmp_path) as results:
        assert results.missing(SAMPLES[:2]) == []


def test_a_line_of_something_else_is_named(tmp_path):
    (tmp_path / "results.jsonl").write_text(json.dumps({"key": "a@0"}) + "\n")
    with pytest.raises(ConfigError, match="line of a@0: not a result"), Results.opened(tmp_path):
        pass


@pytest.mark.parametrize(
    ("now", "says"),
    [(Sample(task("a", "other"), 0), "result of another task"), (Sample(task("a"), 0, "x"), "another patch or task")],
)
def test_a_result_of_another_task_or_patch_is_not_taken(tmp_path, now, says):
    with Results.opened(tmp_path) as results:
        results.add(result(SAMPLES[0], True))
        with pytest.raises(ConfigError, match=says):
            results.missing([now])


HOLD = """
import sys, time
from pathlib import Path
from swe_plugin.evaluation.results import Results
with Results.opened(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_two_evaluations_cannot_write_into_one_directory(tmp_path):
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(ConfigError, match="another process is at work there"), Results.opened(tmp_path):
            pass
    finally:
        other.kill()
        other.communicate()
    with Results.opened(tmp_path):
        pass


def test_no_secret_reaches_the_journal(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-this-test-only")
    with Results.opened(tmp_path) as results:
        results.add(result(SAMPLES[0], None, error="refused sk-of-this-test-only", patch="sk-of-this-test-only \udc80"))
    assert "sk-of-this-test-only" not in (tmp_path / "results.jsonl").read_text()


def test_settings_that_decide_must_not_change_and_others_may(tmp_path):
    first = load_config({"policy": {"litellm": {"temperature": 0.5}}})
    keep_settings(tmp_path, deciding(first, dataset="demo", seed=0))
    other = load_config({"policy": {"litellm": {"temperature": 0.5}, "max_attempts": 9}, "slots": {"running": 2}})
    keep_settings(tmp_path, deciding(other, dataset="demo", seed=0))
    hotter = load_config({"policy": {"litellm": {"temperature": 0.9}}})
    with pytest.raises(ConfigError, match=r"swe.policy.litellm.temperature=0.9: was 0.5 when"):
        keep_settings(tmp_path, deciding(hotter, dataset="demo", seed=0))
    with pytest.raises(ConfigError, match=r"seed=1: was 0"):
        keep_settings(tmp_path, deciding(first, dataset="demo", seed=1))
