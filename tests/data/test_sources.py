"""Rows of published datasets become tasks, exactly; a row that cannot is left out with its reason."""

import json
import subprocess

import pytest

from data.published import BASE, F2P, FIX, P2P, R2E_GYM, ROWS, SWE_BENCH, SWE_BENCH_5, SWE_REBENCH, SWE_SMITH, TASK
from swe_plugin.config import SweConfig
from swe_plugin.data.source import open_tasks
from swe_plugin.data.sources import Dropped, Reason, Row
from swe_plugin.data.sources.mapping import Mapped
from swe_plugin.data.sources.reverse import reverse_patch
from swe_plugin.errors import ConfigError
from swe_plugin.plugins import load_plugins
from swe_plugin.types import Image, Task

BLANK = " \n"


def source(name):
    return load_plugins().load("datasets", name, "source")()


def read(name, **changes) -> Task:
    return source(name).read(ROWS[name] | changes)


def reason(name, **changes):
    with pytest.raises(Dropped) as caught:
        read(name, **changes)
    return caught.value.reason


@pytest.mark.parametrize("name", ROWS)
def test_a_row_of_each_dataset_becomes_a_task_that_survives_the_journey(name):
    task = read(name)
    assert Task.from_json(task.to_json()) == Task.from_json(Task.from_json(task.to_json()).to_json())
    assert task.problem_statement
    assert task.grading.command
    assert task.image.base.startswith("docker:")


@pytest.mark.parametrize("name", [name for name in ROWS if name != "r2e-gym"])
def test_ids_keep_their_blanks_and_quotes(name):
    grading = read(name).grading
    assert [*grading.fail_to_pass] == F2P
    assert [*grading.pass_to_pass] == P2P


@pytest.mark.parametrize("write", [json.dumps, repr, list, tuple])
def test_test_lists_are_lists_or_lists_as_text(write):
    assert read("swe-bench", FAIL_TO_PASS=write(F2P)).grading.fail_to_pass == tuple(F2P)


def test_a_row_may_bring_a_recipe_instead_of_a_docker_image():
    image = {"base": "host", "repository": "https://git.example/calc", "commit": "0" * 40, "setup": ["make"]}
    assert read("swe-bench-verified", image=image).image == Image(**image)
    assert reason("swe-bench-verified", image={"bass": "host"}) is Reason.BAD_ROW
    assert reason("swe-bench-verified", image={"base": "host"}) is Reason.NO_IMAGE


@pytest.mark.parametrize("value", ["['a'", "tests/test_a.py::test_b", "3", "{}", 3, [3], [""], {"a": 1}, [["a"]]])
def test_anything_else_is_no_test_list(value):
    assert reason("swe-bench", PASS_TO_PASS=value) is Reason.BAD_TESTS


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("swe-bench", "docker:swebench/sweb.eval.x86_64.acme_1776_calc-7:latest"),
        ("swe-bench-verified", "docker:swebench/sweb.eval.x86_64.acme_1776_calc-7:v2"),
        ("swe-gym", "docker:xingyaoww/sweb.eval.x86_64.acme_s_calc-7:latest"),
        ("swe-rebench", "docker:swerebench/sweb.eval.x86_64.acme_1776_calc-7"),
        ("swe-smith", "docker:jyangballin/swesmith.x86_64.acme_1776_calc.0123abcd"),
        ("r2e-gym", "docker:namanjain12/calc_final:0123abcd"),
    ],
)
def test_each_dataset_has_its_image_rule(name, image):
    assert read(name).image.base == image


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("swe-bench", {"problem_statement": BLANK}, Reason.EMPTY_STATEMENT),
        ("swe-bench", {"problem_statement": None}, Reason.EMPTY_STATEMENT),
        ("swe-bench", {"base_commit": ""}, Reason.NO_BASE),
        ("swe-bench", {"FAIL_TO_PASS": "[]"}, Reason.NO_TESTS),
        ("swe-bench", {"FAIL_TO_PASS": None, "PASS_TO_PASS": None}, Reason.NO_TESTS),
        ("swe-bench", {"FAIL_TO_PASS": ["test_x (calc.tests.CalcTests)"]}, Reason.NO_COMMAND),
        ("swe-bench", {"instance_id": ""}, Reason.BAD_ROW),
        ("swe-bench", {"version": 3.1}, Reason.BAD_ROW),
        ("swe-bench-verified", {"eval_type": "fail_only"}, Reason.NO_COMMAND),
        ("swe-rebench", {"install_config": "no json"}, Reason.BAD_TESTS),
        ("swe-rebench", {"install_config": {"python": 3.1}}, Reason.BAD_ROW),
        ("swe-smith", {"image_name": ""}, Reason.NO_IMAGE),
        ("swe-smith", {"branch": ""}, Reason.NO_BASE),
        ("swe-smith", {"branch": None}, Reason.NO_BASE),
        ("r2e-gym", {"docker_image": None}, Reason.NO_IMAGE),
        ("r2e-gym", {"expected_output_json": "{}"}, Reason.NO_TESTS),
        ("r2e-gym", {"expected_output_json": '{"test_x": "OK"}'}, Reason.BAD_TESTS),
        ("r2e-gym", {"commit_hash": None}, Reason.BAD_ROW),
        ("tasks", {"image": {"base": "docker:"}}, Reason.NO_IMAGE),
        ("tasks", {"image": {}}, Reason.NO_IMAGE),
        ("tasks", {"grading": {"fail_to_pass": ["a"]}}, Reason.NO_COMMAND),
        ("tasks", {"grading": {"timeouts": 1}}, Reason.BAD_ROW),
    ],
)
def test_a_row_that_cannot_be_used_says_why(name, changes, expected):
    assert reason(name, **changes) is expected


def test_versions_stay_text():
    assert read("swe-bench").metadata["version"] == "3.10"
    assert read("swe-rebench").metadata["python"] == "3.10"
    text = json.dumps(SWE_REBENCH["install_config"])
    assert read("swe-rebench", install_config=text).metadata["python"] == "3.10"


def test_hidden_tests_come_as_a_patch_or_in_the_rows_own_script():
    classic, five = read("swe-bench").grading, read("swe-bench-verified").grading
    assert classic.test_patch == BASE["test_patch"]
    assert "tests/test_calc.py tests/test_more.py" in classic.command[2]
    assert [*five.tests.values()] == [SWE_BENCH_5["eval_script"]]
    assert five.command == ("bash", "-c", f"exec bash {next(iter(five.tests))} 2>&1")
    assert (five.parser, five.protected, five.test_patch) == ("swebench:parse_log_pytest", ("tests/test_calc.py",), "")


def test_a_rows_own_command_is_used():
    assert " -m pytest --no-header -rA -p no:cacheprovider -rA" in read("swe-rebench").grading.command[2]


def test_the_fix_of_a_synthetic_bug_is_its_reverse():
    task = read("swe-smith")
    assert task.gold_patch == FIX.replace("-x = 1\n+x = 2", "+x = 1\n-x = 2")
    assert task.base_commit == SWE_SMITH["instance_id"]
    assert task.grading.protected == ("tests/test_calc.py", "tests/test_more.py")


def test_a_status_that_is_expected_need_not_be_passed():
    grading = read("r2e-gym").grading
    assert grading.pass_to_pass == ("TestX.test_x", "test_y")
    assert grading.expected == {"test_y": "FAILED"}
    assert read("r2e-gym").base_commit == f"{R2E_GYM['commit_hash']}^"


SCRIPTS = [
    "sed -i s/one/two/ a.txt",
    "echo new > b.txt",
    "rm a.txt",
    "printf 'one' > a.txt",
    "git mv a.txt 'c d.txt'; echo more >> 'c d.txt'",
    "chmod +x a.txt",
    "printf -- '-- a\\n++ b\\n' > a.txt",
    "printf 'one\\n\\n\\ntwo\\n' > a.txt; mkdir -p x; mv a.txt x/y",
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_reversed_patch_brings_the_old_tree_back(tmp_path, script):
    def git(*words, stdin=None):
        config = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "diff.renames=true"]
        return subprocess.run(
            ["git", *config, *words], cwd=tmp_path, input=stdin, capture_output=True, text=True, check=True
        ).stdout

    (tmp_path / "a.txt").write_text("zero\none\n-- x\n\nlast line\n")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "old")
    subprocess.run(["bash", "-ec", script], cwd=tmp_path, check=True)
    git("add", "-A")
    git("apply", "--index", "-", stdin=reverse_patch(git("diff", "--cached")))
    assert git("status", "--porcelain") == ""


MAPPING = """\
instance_id: "{id}"
problem_statement: "{title}\\n\\n{body}"
repo: "{owner}/{name}"
image: docker:registry.example/{id}
workdir: /app
command: [bash, -c, "pytest -rA {file}"]
parser: pytest
fail_to_pass: "{f2p}"
pass_to_pass: "{p2p}"
timeout_s: 90
"""
MAPPED = {"id": "1", "title": "T", "body": "B", "owner": "o", "name": "n", "file": "t.py", "f2p": F2P, "p2p": "[]"}


def mapped(tmp_path, text=MAPPING):
    path = tmp_path / "mapping.yaml"
    path.write_text(text)
    return Mapped(path)


def test_a_mapping_in_yaml_is_a_source(tmp_path):
    task = mapped(tmp_path).read(MAPPED)
    assert (task.problem_statement, task.repo, task.image.workdir) == ("T\n\nB", "o/n", "/app")
    assert [*task.grading.command] == ["bash", "-c", "pytest -rA t.py"]
    assert (task.grading.fail_to_pass, task.grading.timeout_s) == (tuple(F2P), 90.0)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"f2p": "nope"}, Reason.BAD_TESTS),
        ({"f2p": []}, Reason.NO_TESTS),
        ({"title": "", "body": ""}, Reason.EMPTY_STATEMENT),
        ({"id": None}, Reason.BAD_ROW),
    ],
)
def test_rows_of_a_mapping_are_checked_like_others(tmp_path, change, expected):
    with pytest.raises(Dropped) as caught:
        mapped(tmp_path).read(MAPPED | change)
    assert caught.value.reason is expected


def test_a_column_that_a_mapping_names_must_be_there(tmp_path):
    with pytest.raises(Dropped, match="column file: missing"):
        mapped(tmp_path).read({key: value for key, value in MAPPED.items() if key != "file"})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("instanceid: x", "did you mean instance_id"),
        ("- a", "field: template"),
        ("a: [", "cannot be read"),
    ],
)
def test_a_wrong_mapping_is_refused(tmp_path, text, says):
    with pytest.raises(ConfigError, match=says):
        mapped(tmp_path, text)
    with pytest.raises(ConfigError, match="cannot be read"):
        Mapped(tmp_path / "none.yaml")


def test_a_versions_number_in_a_mapping_stays_as_it_is_written(tmp_path):
    task = mapped(tmp_path, MAPPING.replace('repo: "{owner}/{name}"', "repo: 3.10")).read(MAPPED)
    assert task.repo == "3.10"


def test_a_dataset_of_rows_is_not_taken_for_one_of_tasks():
    with pytest.raises(ConfigError, match="swe-plugin prepare swe-gym"):
        list(open_tasks("swe-gym", SweConfig(), load_plugins(), "--dataset"))


def test_columns_that_are_not_there_are_empty():
    row = Row({"a": None})
    assert (row.text("a", "b"), row.tests("a"), row.mapping("a"), row.kept("a")) == ("", (), {}, {})


@pytest.mark.parametrize("name", ROWS)
def test_an_empty_row_is_left_out(name):
    with pytest.raises(Dropped):
        source(name).read({})


def test_our_own_schema_is_read_as_it_is_written():
    assert read("tasks").grading.command == TASK["grading"]["command"]
    assert SWE_BENCH["instance_id"] == read("swe-bench").instance_id
