"""A task file is read row by row; a mistake in it is named by row and column."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from swe_plugin.config import load_config
from swe_plugin.data.files import read_tasks
from swe_plugin.data.rows import task_from_row
from swe_plugin.data.source import open_tasks
from swe_plugin.errors import ConfigError, PluginError
from swe_plugin.plugins import Entry, load_plugins
from swe_plugin.types import GradingSpec, Image, Task

TASK = Task(
    "a-1",
    "it is broken",
    image=Image(files={"a.py": "x\n"}),
    grading=GradingSpec(("true",), fail_to_pass=("t",), timeout_s=5.0),
)
SHORT = {"instance_id": "a-1", "problem_statement": "it is broken"}


def write(path, rows):
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def read(path):
    return list(read_tasks(path, "--dataset"))


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_the_files_of_training_can_be_read(tmp_path, suffix):
    rows = [{"prompt": "p", "data_source": "d", "task": TASK.to_json(), "extra_info": {"index": 0}}]
    (task,) = read(write(tmp_path / f"tasks.{suffix}", rows))
    assert task.to_json() == TASK.to_json()


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_row_may_be_the_task_itself_and_leave_out_what_has_a_default(tmp_path, suffix):
    row = SHORT | {"repo": None, "grading": {"command": ["true"], "timeout_s": 5}}
    (task,) = read(write(tmp_path / f"tasks.{suffix}", [row]))
    assert (task.repo, task.image, task.grading.timeout_s) == ("", Image(), 5)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("{", "row 2: no JSON"),
        ([], "row 2, [] is no object"),
        ({"instance_id": "b"}, "row 2, column problem_statement: missing"),
        (SHORT | {"instance_id": ""}, "row 2, column instance_id: empty"),
        (SHORT | {"instance_id": 7}, "row 2, column instance_id: 7: "),
        (SHORT | {"repos": "x"}, "row 2, column repos: unknown; did you mean repo?"),
        (
            SHORT | {"grading": {"timeouts": 3}},
            "row 2, column grading.timeouts: unknown; did you mean grading.timeout_s?",
        ),
        (SHORT | {"grading": {"timeout_s": "long"}}, "row 2, column grading.timeout_s: 'long': "),
        (SHORT | {"grading": {"command": "pytest -q"}}, "row 2, column grading.command: 'pytest -q': "),
        (SHORT | {"image": {"files": {"a.py": 3}}}, "row 2, column image.files.a.py: 3: "),
        (SHORT | {"image": "host"}, "row 2, column image: 'host': "),
        ({"task": "no json"}, "row 2, column task: no JSON"),
        ({"task": {"instance_id": "b"}}, "row 2, column task.problem_statement: missing"),
        ({"task": 5}, "row 2, 5 is no object"),
        (SHORT, "row 2, column instance_id: 'a-1' is row 1"),
    ],
)
def test_a_wrong_row_is_named_with_its_column(tmp_path, row, says):
    path = write(tmp_path / "tasks.jsonl", [SHORT, row])
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert says in str(caught.value)
    assert str(caught.value).startswith(f"--dataset={str(path)!r}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("tasks.csv", b"", "must end in .jsonl or .parquet"),
        ("tasks.jsonl", b"", "has no rows"),
        ("tasks.jsonl", b"\n\n", "has no rows"),
        ("tasks.jsonl", b"\xff\n", "is no UTF-8"),
        ("tasks.jsonl", None, "cannot be read: No such file"),
        ("tasks.parquet", None, "cannot be read: No such file"),
        ("tasks.parquet", b"not parquet", "no parquet"),
    ],
)
def test_a_wrong_file_is_named_with_the_reason(tmp_path, name, content, says):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=says):
        read(tmp_path / name)


def test_rows_before_a_wrong_one_can_be_used(tmp_path):
    path = write(tmp_path / "tasks.jsonl", [SHORT, "{"])
    assert next(iter(read_tasks(path, "--dataset"))).instance_id == "a-1"


def test_a_dataset_is_a_registered_name_or_a_path(tmp_path):
    def open_(dataset):
        return [task.instance_id for task in open_tasks(dataset, load_config({}), load_plugins(), "--dataset")]

    assert all(name.startswith("demo__") for name in open_("demo"))
    assert open_(str(write(tmp_path / "tasks.jsonl", [SHORT]))) == ["a-1"]
    with pytest.raises(ConfigError, match="did you mean 'demo'"):
        open_("dem")


def broken_source(settings):
    yield task_from_row(SHORT)
    raise RuntimeError("the server is away")


def test_a_source_that_fails_is_named(monkeypatch):
    entry = Entry("datasets", "remote", f"{__name__}:broken_source", "", "somebody", "1.0")
    monkeypatch.setitem(load_plugins().entries, ("datasets", "remote"), entry)
    with pytest.raises(PluginError, match="dataset 'remote' failed: RuntimeError: the server is away"):
        list(open_tasks("remote", load_config({}), load_plugins(), "--dataset"))
