"""SWE-bench's format, in and out."""

from __future__ import annotations

import json

import pytest

from swe_plugin.errors import ConfigError
from swe_plugin.evaluation.predictions import read_predictions, write_predictions
from swe_plugin.evaluation.samples import plan

from .made import result, task

PATCH = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+2\n"
ONE = {"instance_id": "a", "model_name_or_path": "m", "model_patch": PATCH}
TWO = {"instance_id": "b", "model_name_or_path": "m", "model_patch": None}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("preds.json", json.dumps([ONE, TWO])),
        ("preds.json", json.dumps({"a": ONE, "b": TWO})),
        ("preds.json", json.dumps({"a": {"model_patch": PATCH, "model_name_or_path": "m"}, "b": TWO})),
        ("preds.jsonl", f"{json.dumps(ONE)}\n\n{json.dumps(TWO)}\n"),
        ("preds.jsonl", f"{json.dumps(ONE | {'model_patch': PATCH.rstrip()})}\n{json.dumps(TWO)}"),
    ],
)
def test_each_form_is_read(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    assert read_predictions(tmp_path / name, "--predictions") == {"a": (PATCH, "m"), "b": ("", "m")}


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("preds.txt", "", "must end in .json or .jsonl"),
        ("preds.json", "{", "no JSON"),
        ("preds.json", "3", "must be a list of predictions"),
        ("preds.json", "[]", "has no predictions"),
        ("preds.json", "[3]", "item 1: '3' is no object"),
        ("preds.jsonl", f"{json.dumps(ONE)}\nx\n", "line 2: no JSON"),
        ("preds.json", json.dumps([ONE, {"instance_id": "b"}]), "item 2: model_patch is missing"),
        ("preds.json", json.dumps([ONE | {"model_patch": 3}]), "item 1: instance_id, model_patch"),
        ("preds.json", json.dumps([ONE, ONE]), "item 2: a second prediction for 'a'"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path, name, content, says):
    (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError) as error:
        read_predictions(tmp_path / name, "--predictions")
    assert says in str(error.value)


def test_what_is_written_can_be_read_again(tmp_path):
    samples = plan([task("a"), task("b")], 2)
    made = [
        result(samples[0], True, patch=PATCH, model="m"),
        result(samples[1], False, model="m"),
        result(samples[2], None, patch=PATCH + "é\udc80", model="m"),
        result(samples[3], None, model="m"),
    ]
    files = write_predictions(tmp_path, made)
    assert [path.name for path in files] == ["preds.json", "preds_1.json"]
    assert read_predictions(files[0], "") == {"a": (PATCH, "m"), "b": ("", "m")}
    assert [*read_predictions(files[1], "")] == ["a"], "b never had a patch: nothing is submitted for it"
    assert json.loads(files[0].read_text())["a"] == ONE


def test_an_evaluation_without_patches_writes_no_file(tmp_path):
    assert write_predictions(tmp_path, [result(plan([task("a")], 1)[0], None)]) == []
