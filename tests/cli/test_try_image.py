"""`swe-plugin try` on a row whose image is an OCI layout with a repository that hides the fix."""

import gzip
import json
import os
import shutil
from functools import partial

import pytest
from environments.image_archives import directory_layer, layer, oci_layout
from environments.image_repositories import git
from typer.testing import CliRunner

from swe_plugin.cli.app import build_app
from swe_plugin.environments.images import resolve
from swe_plugin.types import GradingSpec, Image, Task

pytestmark = pytest.mark.slow

GRADING = GradingSpec(
    command=("bash", "hidden.sh"),
    tests={"hidden.sh": '. ./calc.sh; [ "$(add 1 2)" = 3 ] && echo PASSED two || echo FAILED two\n'},
    fail_to_pass=("two",),
    timeout_s=20,
)
OLD, NEW = "add() { echo $(($1 - $2)); }\n", "add() { echo $(($1 + $2)); }\n"


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """(layout with `good` and `no-git`, base commit, fix as a patch)."""
    top = tmp_path_factory.mktemp("images")
    host = resolve(Image(), owner=(1000, 1000) if os.geteuid() == 0 else (os.geteuid(), os.getegid())).directories[-1]
    shutil.copytree(host, top / "root", symlinks=True, ignore=shutil.ignore_patterns("python*"))
    repository = top / "with/testbed"
    repository.mkdir(parents=True)
    git(repository, "init", "-q")
    for text, message in ((OLD, "base"), (NEW, "the fix")):
        (repository / "calc.sh").write_text(text)
        git(repository, "add", ".")
        git(repository, "commit", "-qm", message)
    base, fix = git(repository, "rev-parse", "HEAD~1"), git(repository, "diff", "HEAD~1", "HEAD") + "\n"
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(repository, "reset", "-q", "--hard", base)
    tools, code = directory_layer(top / "root"), directory_layer(top / "with")
    images = {"good": [tools, code], "no-git": [tools, code, layer(("usr/bin/.wh.git", ""))]}
    oci_layout(top / "layout", images, compress=partial(gzip.compress, compresslevel=1))
    return top / "layout", base, fix


@pytest.fixture
def call(tmp_path, images):
    layout, base, fix = images

    def call(name, *words):
        image = Image(f"oci:{layout}#{name}")
        task = Task("calc-1", "add subtracts", image=image, grading=GRADING, base_commit=base, gold_patch=fix)
        (tmp_path / "tasks.jsonl").write_text(task.to_json() + "\n")
        line = ["try", "calc-1", "--dataset", str(tmp_path / "tasks.jsonl"), "--out", str(tmp_path / "run"), *words]
        return CliRunner().invoke(build_app(), line)

    return call


def test_the_fix_solves_it_and_doing_nothing_does_not(call):
    done = call("good", "--policy", "gold", "--json")
    assert (done.exit_code, json.loads(done.stdout)["reward"]) == (0, 1.0), done.stderr
    done = call("good", "--policy", "empty", "--json")
    assert (done.exit_code, json.loads(done.stdout)["reward"]) == (0, 0.0)


def test_the_agent_finds_the_base_commit_and_nothing_newer(call, tmp_path):
    commands = ["git log --all --format=%s; git branch -a", "git cat-file --batch-all-objects --batch-check | wc -l"]
    (tmp_path / "script.json").write_text(json.dumps([*commands, f"cat > calc.sh <<'EOF'\n{NEW}EOF"]))
    done = call("good", "--policy", "scripted", "--script", str(tmp_path / "script.json"))
    assert (done.exit_code, "1 (resolved)" in done.stdout) == (0, True), done.stderr
    lines = [line.strip() for line in done.stdout.splitlines()]
    at = lines.index("$ git log --all --format=%s; git branch -a")
    assert lines[at + 1 : at + 3] == ["base", "* main"]
    assert lines[lines.index("$ git cat-file --batch-all-objects --batch-check | wc -l") + 1] == "3"
    assert "origin/main" not in done.stdout


def test_a_bad_image_is_the_environments_failure_and_says_instance_image_and_fix(call, images):
    done = call("no-git", "--policy", "empty", "swe.failure.max_attempts=1", "--json")
    data = json.loads(done.stdout)
    assert (done.exit_code, data["reward"], data["stop_reason"]) == (1, None, "environment_start")
    (failure,) = data["failures"]
    assert failure["error"].count("\n") == 0
    assert f"image 'oci:{images[0]}#no-git': the image has no git in /" in failure["error"]
    assert failure["error"].startswith("EnvironmentStartError: calc-1@0: image 'oci:")
    assert "install it in the image" in failure["error"]
