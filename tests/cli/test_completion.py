"""What bash offers after Tab, asked for as its completion script does."""

import pytest
from typer.testing import CliRunner

from swe_plugin.cli.app import build_app


def offered(*words):
    line = " ".join(["swe-plugin", *words])
    asked = {"_SWE_PLUGIN_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    done = CliRunner().invoke(build_app(), [], prog_name="swe-plugin", env=asked)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "has"),
    [
        (("t",), ["tasks", "timeline", "top", "train", "try"]),
        (("train", "--recipe", "demo_"), ["demo_grpo", "demo_ppo"]),
        (("tasks", "demo__orchard-score-"), [f"demo__orchard-score-{n}" for n in range(1, 9)]),
        (("try", "--dataset", "demo", "demo__orchard-rank-1"), ["demo__orchard-rank-1"]),
        (("try", "x", "--policy", ""), ["empty", "gold", "keyboard", "litellm:", "scripted"]),
        (("eval", "--policy", ""), ["empty", "gold", "litellm:", "scripted"]),
        (("try", "x", "--backend", ""), ["docker", "dummy", "faulty", "sandbox"]),
        (("try", "x", "--dataset", "de"), ["demo"]),
        (("try", "--dataset", "nowhere.jsonl", ""), []),
    ],
)
def test_the_shell_offers_what_there_is(words, has):
    assert sorted(offered(*words)) == has


def test_files_and_folders_are_offered_as_datasets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for name in ("my.jsonl", "my.txt", "data/my.parquet"):
        (tmp_path / name).touch()
    assert offered("try", "x", "--dataset", "m") == ["my.jsonl"]
    assert sorted(offered("try", "x", "--dataset", "d")) == ["data/", "demo"]
    assert offered("try", "x", "--dataset", "data/") == ["data/my.parquet"]
