"""`swe-plugin convert`: rows, other formats, and an account of what is wrong."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from tokens import chatml
from typer.testing import CliRunner

from swe_plugin.cli.app import build_app

LOG = [
    {"role": "user", "content": "read the file"},
    {"role": "assistant", "content": "<think>hm</think>ls"},
    {"role": "user", "content": "a.py"},
    {"role": "assistant", "content": "submit"},
]


@pytest.fixture
def convert():
    return lambda *words: CliRunner().invoke(build_app(), ["convert", *map(str, words)])


@pytest.fixture
def model(tmp_path):
    chatml.tokenizer(chatml.STRIPS_THOUGHTS).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.jsonl"
    good, bad = {"messages": LOG, "reward": 1.0}, {"messages": LOG[:1], "reward": 1.0}
    path.write_text("\n".join(json.dumps(line) for line in (good, {"messages": LOG, "reward": 0.0}, bad)))
    return path


def test_rows_and_an_account(tmp_path, convert, model, log):
    out = tmp_path / "rows.parquet"
    result = convert(log, "--out", out, "--tokenizer", model, "--min-reward", "1")
    assert result.exit_code == 1  # the third has no answer
    assert "log-3: no row: no answer that follows a message" in result.stderr
    summary = json.loads(result.stdout)
    assert (summary["trajectories"], summary["rows"]) == (3, 1)
    assert summary["left_out"] == {"reward below 1, or unknown": 1}
    (row,) = pq.read_table(out).to_pylist()
    tokenizer = chatml.tokenizer()
    assert tokenizer.decode([i for i, m in zip(row["input_ids"], row["loss_mask"], strict=True) if m]) == (
        "<think>hm</think>ls<|im_end|>submit<|im_end|>"
    )
    assert (row["log_probs"], row["reward"], summary["trained_tokens"]) == (None, 1.0, sum(row["loss_mask"]))


def test_check_reports_what_the_template_would_rewrite(convert, model, log):
    result = convert(log, "--tokenizer", model, "--check")
    assert result.exit_code == 1
    assert "log-1: before message 3, at token" in result.stderr
    assert "the row has '<think>" in result.stderr


def test_check_is_content_with_a_template_that_appends(tmp_path, convert, model, log):
    log.write_text(json.dumps(LOG))
    log = log.rename(tmp_path / "log.json")
    assert convert(log, "--tokenizer", model, "--template", chatml.PLAIN, "--check").exit_code == 0


def test_rows_that_are_too_long_are_left_out_and_never_cut(tmp_path, convert, model, log):
    result = convert(log, "--out", tmp_path / "rows.parquet", "--tokenizer", model, "--max-length", "20")
    assert json.loads(result.stdout)["left_out"] == {"longer than 20 tokens": 2}
    assert pq.read_table(tmp_path / "rows.parquet").num_rows == 0


@pytest.mark.parametrize(("to", "suffix", "key"), [("atif", ".json", "steps"), ("traj", ".traj", "history")])
def test_other_formats(tmp_path, convert, log, to, suffix, key):
    result = convert(log, "--to", to, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    files = sorted((tmp_path / "out").iterdir())
    assert [file.name for file in files] == [f"log-{n}{suffix}" for n in (1, 2, 3)]
    assert json.loads(files[0].read_text())[key]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--check", "--tokenizer", "/nowhere"], "--tokenizer='/nowhere': cannot be loaded"),
        ([], "give --out"),
        (["--to", "atif", "--check"], "needs --out"),
    ],
)
def test_mistakes_cost_one_line(convert, log, words, reason):
    result = convert(log, *words)
    assert result.exit_code == 2
    assert reason in result.stderr
    assert "Traceback" not in result.stderr


def test_text_without_a_tokenizer_says_what_is_missing(convert, log, tmp_path):
    result = convert(log, "--out", tmp_path / "rows.parquet")
    assert result.exit_code == 1
    assert "no tokens are recorded: give --tokenizer" in result.stderr
