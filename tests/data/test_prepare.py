"""`swe-plugin prepare`: rows in, the files of training and an account of every row out."""

import json
import os
import random
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from docs.shell_blocks import blocks, run_block
from environments.image_archives import docker_save, layer
from typer.testing import CliRunner

from data.published import R2E_GYM, ROWS, SWE_BENCH, TASK
from swe_plugin.cli.app import build_app
from swe_plugin.data.files import read_tasks
from swe_plugin.types import Task

REPOS = ["acme/one", "acme/two", "other/three", "other/four"]


def rows(count=40):
    return [SWE_BENCH | {"instance_id": f"a__b-{n}", "repo": REPOS[n % 4], "difficulty": "easy"} for n in range(count)]


def write(path, values):
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(values), path)
    else:
        path.write_text("".join(f"{json.dumps(value)}\n" for value in values))
    return path


@pytest.fixture
def prepare(tmp_path):
    def run(source, *words, code=0, sizes="--no-sizes"):
        out = tmp_path / "out"
        given = ["prepare", source, *map(str, words), sizes, "--out", str(out), "--json"]
        done = CliRunner().invoke(build_app(), given)
        assert done.exit_code == code, done.output
        return (json.loads(done.stdout), out) if code == 0 else done.stderr.replace("\n", " ")

    return run


def ids(path):
    return [task.instance_id for task in read_tasks(path, "rows")]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("name", ROWS)
def test_each_dataset_becomes_a_file_that_training_reads(prepare, tmp_path, name, suffix):
    summary, out = prepare(name, write(tmp_path / f"rows.{suffix}", [ROWS[name]]))
    assert (summary["read"], summary["kept"], summary["dropped"]) == (1, {"train": 1}, {})
    (row,) = pq.read_table(out / "train.parquet").to_pylist()
    task = Task.from_json(row["task"])
    assert row["prompt"] == [{"role": "user", "content": task.problem_statement}]
    assert (row["data_source"], row["agent_name"]) == (name, "swe")
    assert row["extra_info"] == {"index": 0, "instance_id": task.instance_id}
    assert (out / "images.txt").read_text() == f"{task.image.base}\n"
    assert json.loads((out / "summary.json").read_text()) == summary


def test_every_row_that_is_left_out_is_accounted_for(prepare, tmp_path):
    good = rows(3)
    bad = [
        good[0],
        good[1] | {"instance_id": "e", "problem_statement": ""},
        good[1] | {"instance_id": "f", "base_commit": None},
        good[1] | {"instance_id": "g", "FAIL_TO_PASS": "['"},
        good[1] | {"instance_id": "h", "problem_statement": "half a \ud83d"},
        [1],
    ]
    summary, _ = prepare("swe-bench", write(tmp_path / "rows.jsonl", good + bad))
    assert (summary["read"], summary["kept"]) == (9, {"train": 3})
    counts = {reason: found["rows"] for reason, found in summary["dropped"].items()}
    assert counts == {
        "duplicate": 1,
        "empty statement": 1,
        "missing branch or base commit": 1,
        "unparsable test lists": 1,
        "bad row": 2,
    }
    assert summary["dropped"]["unparsable test lists"]["examples"][0].startswith(f"g ({tmp_path}/rows.jsonl:7): column")


def test_a_list_of_keepers_and_conditions_choose(prepare, tmp_path):
    path = write(tmp_path / "rows.jsonl", rows())
    (tmp_path / "keep.txt").write_text("# good ones\na__b-0\na__b-1\n\na__b-3\n")
    words = ("--keep", tmp_path / "keep.txt", "--where", "repo=acme/*", "--where", "instance_id!=a__b-1")
    summary, out = prepare("swe-bench", path, *words)
    assert ids(out / "train.parquet") == ["a__b-0"]
    counts = {reason: found["rows"] for reason, found in summary["dropped"].items()}
    assert counts == {"filtered out": 21, "not in the keep-list": 18}


def test_the_images_that_are_needed_are_counted_with_their_size(prepare, tmp_path, monkeypatch):
    monkeypatch.setenv("SWE_PLUGIN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    docker_save(tmp_path / "x.tar", [layer(("a", "x" * 5000)), layer(("b", "y"))])
    bases = [f"oci:{tmp_path}/x.tar"] * 3 + ["docker:localhost:9/a", "docker:localhost:9/b"]
    images = [{"base": base} for base in bases] + [{"base": bases[0], "setup": ["make"]}] * 2
    tasks = [TASK | {"instance_id": f"a-{n}", "image": image} for n, image in enumerate(images)]
    summary, _ = prepare("tasks", write(tmp_path / "rows.jsonl", tasks), sizes="--sizes")
    found = summary["images"]
    assert (found["bases"], found["recipes"], found["layers"], found["layers_here"]) == (3, 1, 2, 0)
    assert found["total_bytes"] == found["read_bytes"] > 10000
    ((reason, count),) = found["unknown"].items()
    assert (count, "localhost:9: " in reason) == (2, True)


def test_limits_count_tests_and_tokens(prepare, tmp_path):
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    tokenizer = Tokenizer(WordLevel({"w": 0}, unk_token="w"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    values = [row | {"problem_statement": "w " * n} for n, row in enumerate(rows(11), start=1)]
    path = write(tmp_path / "rows.jsonl", [*values, rows(12)[-1] | {"PASS_TO_PASS": ["t.py::a", "t.py::b", "t.py::c"]}])
    words = ("--max-tests", 3, "--tokenizer", tmp_path, "--max-statement-tokens", 10)
    summary, _ = prepare("swe-bench", path, *words)
    assert {reason: found["rows"] for reason, found in summary["dropped"].items()} == {
        "statement too long": 1,
        "too many tests": 1,
    }
    assert summary["statement_tokens"] == {"mean": 5.5, "p50": 6, "p90": 10, "max": 10}


def test_a_shuffle_has_a_seed_and_a_slice_comes_after_it(prepare, tmp_path):
    path = write(tmp_path / "rows.parquet", rows())
    order = list(range(40))
    random.Random(7).shuffle(order)
    summary, out = prepare("swe-bench", path, "--shuffle", 7, "--slice", "5:15")
    assert ids(out / "train.parquet") == [f"a__b-{n}" for n in order[5:15]]
    assert summary["dropped"] == {"outside the slice": {"rows": 30, "examples": []}}
    prepare("swe-bench", path)
    assert ids(out / "train.parquet") == [f"a__b-{n}" for n in range(40)]


def test_no_repository_is_on_both_sides_of_a_split(prepare, tmp_path):
    path = write(tmp_path / "rows.jsonl", rows())
    sides = Counter()
    for seed in range(6):
        summary, out = prepare("swe-bench", path, "--val-fraction", 0.3, "--seed", seed, "--shuffle", seed)
        train, val = ({task.repo for task in read_tasks(out / f"{side}.parquet", "")} for side in ("train", "val"))
        assert not train & val
        assert summary["kept"] == {"train": 20, "val": 20}
        sides.update(val)
    assert len(sides) > 2
    summary, out = prepare("swe-bench", path, "--val-repos", "other/*")
    assert {task.repo for task in read_tasks(out / "val.parquet", "")} == {"other/three", "other/four"}
    prepare("swe-bench", path)
    assert not (out / "val.parquet").exists()


def test_rows_come_from_several_files_and_a_copy_of_a_hub_dataset(prepare, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    write(copy / "train-00000.parquet", rows(3))
    first = write(tmp_path / "one.jsonl", rows(5)[3:])
    _, out = prepare("swe-bench", first, f"hub:{copy}:train")
    assert ids(out / "train.parquet") == ["a__b-3", "a__b-4", "a__b-0", "a__b-1", "a__b-2"]


def test_a_dataset_that_makes_its_tasks_itself_can_be_prepared(prepare):
    summary, out = prepare("demo", "--slice", "0:5")
    assert summary["kept"] == {"train": 5}
    assert all(name.startswith("demo__") for name in ids(out / "train.parquet"))


def test_a_mapping_is_a_source(prepare, tmp_path):
    (tmp_path / "mine.yaml").write_text(
        'instance_id: "{commit_hash}"\nproblem_statement: "{problem_statement}"\nimage: "docker:{docker_image}"\n'
        'command: [bash, run.sh]\nfail_to_pass: ["{repo_name}"]\n'
    )
    _, out = prepare(str(tmp_path / "mine.yaml"), write(tmp_path / "rows.jsonl", [R2E_GYM]))
    (row,) = pq.read_table(out / "train.parquet").to_pylist()
    assert row["data_source"] == "mine"
    assert Task.from_json(row["task"]).grading.fail_to_pass == ["calc"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["swe-bnch"], "did you mean 'swe-bench'"),
        (["tasks"], "give files that end in .jsonl or .parquet"),
        (["demo", "rows.jsonl"], "makes its tasks itself"),
        (["swe-bench", "none.jsonl"], "cannot be read: No such file"),
        (["swe-bench", "rows.csv"], "must end in .jsonl or .parquet"),
        (["swe-bench", "rows.jsonl", "--where", "repo"], "write COLUMN=GLOB"),
        (["swe-bench", "rows.jsonl", "--where", "rep=x"], "no such column; there are repo, instance_id"),
        (["swe-bench", "rows.jsonl", "--slice", "3"], "write START:STOP"),
        (["swe-bench", "rows.jsonl", "--keep", "none"], "cannot be read"),
        (["swe-bench", "rows.jsonl", "--max-statement-tokens", "5"], "needs --tokenizer"),
        (["swe-bench", "rows.jsonl", "--tokenizer", "none"], "tokenizer.json"),
        (["none.yaml", "rows.jsonl"], "cannot be read"),
        pytest.param(
            *(["swe-bench", "hub:none/none"], "where the hub is out of reach, give files"),
            marks=pytest.mark.slow,  # its client asks several times
        ),
    ],
)
def test_a_wrong_argument_is_named_in_one_line(prepare, tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    write(tmp_path / "rows.jsonl", rows(2))
    assert says in prepare(*words, code=2)


def test_nothing_kept_is_a_failure(tmp_path):
    path = write(tmp_path / "rows.jsonl", [{"instance_id": "a"}])
    done = CliRunner().invoke(build_app(), ["prepare", "swe-bench", str(path), "--out", str(tmp_path / "out")])
    assert done.exit_code == 1
    assert "unparsable" not in done.stdout
    assert "left out" in done.stdout
    assert not (tmp_path / "out/train.parquet").exists()


MEASURE = """
import json, pathlib, re, sys
pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak of whoever forked this process is inherited
from swe_plugin.cli.app import build_app
from typer.testing import CliRunner
words = ["prepare", "swe-bench", sys.argv[1], "--out", sys.argv[2], "--shuffle", "0", "--val-fraction", "0.2", "--json"]
kept = json.loads(CliRunner().invoke(build_app(), words).stdout)["kept"]
peak_kib = int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
print(json.dumps([sum(kept.values()), peak_kib / 1024]))
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows(tmp_path):
    """10,000 rows of 20 kB are 200 MB; what is remembered of each is a few words."""
    peaks = {}
    for count in (500, 10_000):
        path = tmp_path / f"{count}.parquet"
        noise = random.Random(0)
        base = rows(1)[0]
        schema = pa.Table.from_pylist([base]).schema
        with pq.ParquetWriter(path, schema) as writer:
            for start in range(0, count, 250):
                statements = [noise.randbytes(10_000).hex() for _ in range(250)]
                batch = [
                    base | {"instance_id": f"a-{start + n}", "problem_statement": s} for n, s in enumerate(statements)
                ]
                writer.write_table(pa.Table.from_pylist(batch, schema))
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, path, tmp_path / "out"], capture_output=True, text=True, check=True
        )
        kept, peaks[count] = json.loads(done.stdout)
        assert kept == count
    assert peaks[10_000] - peaks[500] < 40, peaks


@pytest.mark.slow
def test_the_distribution_of_the_manual_adds_a_dataset(tmp_path):
    """Its files, with the metadata that installing them writes, in a process of its own."""
    for block in blocks((Path(__file__).parents[2] / "docs/datasets.md").read_text(encoding="utf-8")):
        if block.file.startswith("mine/"):
            run_block(block, tmp_path, tmp_path)
    project = tomllib.loads((tmp_path / "mine/pyproject.toml").read_text())["project"]
    info = tmp_path / "mine/swe_plugin_my_tasks-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = project["entry-points"]["swe_plugin"]
    (info / "entry_points.txt").write_text("[swe_plugin]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()))
    good = {"id": "1", "title": "T", "project": "p", "image": "i:1", "failing": ["a"], "passing": "[]", "sha": "0"}
    path = write(tmp_path / "rows.jsonl", [good, good | {"id": "2", "sha": ""}, good | {"id": "3", "image": None}])
    done = subprocess.run(
        [sys.executable, "-m", "swe_plugin.cli", "prepare", "my-tasks", path, "--no-sizes", "--json"],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}/mine{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ids(tmp_path / "data/my-tasks/train.parquet") == ["1"]
    assert set(json.loads(done.stdout)["dropped"]) == {"missing branch or base commit", "no image"}
    lines = sum(path.read_text().count("\n") for path in (tmp_path / "mine/swe_plugin_my_tasks").glob("*.py"))
    assert lines <= 40
