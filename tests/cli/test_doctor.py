"""`swe-plugin doctor`: on any machine, with or without verl, and never silent about why."""

import json
import os
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from typer.testing import CliRunner

import swe_plugin
from swe_plugin.cli.app import build_app

pytestmark = pytest.mark.slow

REPOSITORY = Path(swe_plugin.__file__).parents[1]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SWE_PLUGIN_HOME", str(tmp_path / "home"))


def doctor(*words):
    return CliRunner().invoke(build_app(), ["doctor", *words])


def findings(text):
    report = json.loads(text)
    assert report["ok"] is all(finding["ok"] for finding in report["findings"])
    return {finding["name"]: finding for finding in report["findings"]}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--recipe", "demo_pp"], "--recipe demo_pp: did you mean demo_ppo?"),
        (["swe.slots.running"], "swe.slots.running: must be key=value"),
        (["--recipe", "demo_ppo", "+plugin=mine"], "plugin= among the words already"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2(words, says):
    done = doctor(*words)
    assert done.exit_code == 2
    assert says in done.stderr


def test_a_recipe_is_examined_and_every_mistake_in_it_shown(tmp_path):
    words = ["--recipe", "grpo_qwen3_8b_docker", "swe_device=cpu", "swe.scaffold.name=bsh", "--json"]
    done = doctor(*words, f"data.train_files={tmp_path}/no.parquet", f"actor_rollout_ref.model.path={tmp_path}/no")
    assert done.exit_code == 1
    found = findings(done.stdout)
    assert found["plugin in verl"]["ok"]
    assert found["recipe"]["ok"]
    assert found["agent and grader"]["fix"].startswith("did you mean 'bash'?")
    assert found["tasks"]["fix"].startswith("no such file")
    assert found["model"]["value"] == f"{tmp_path}/no"
    assert found["namespaces"]["ok"], "not needed by this recipe, whatever the machine can do"


def site_without_verl(directory):
    """A site-packages of what the package depends on, and nothing else of this Python."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    wanted, seen = ["swe-plugin", *(Requirement(text).name for text in project["dependencies"])], set()
    while wanted:
        name = wanted.pop()
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        for text in found.requires or []:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                wanted += [requirement.name] if requirement.name not in seen else []
        seen.add(name)
        for top in {file.parts[0] for file in found.files or [] if file.parts[0] not in ("..", "__pycache__")}:
            if not (directory / top).exists() and not top.startswith("__editable__") and not top.endswith(".pth"):
                (directory / top).symlink_to(Path(found.locate_file(top)))


def test_without_verl_the_machine_is_examined_and_the_missing_install_named(tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    site_without_verl(site)
    done = subprocess.run(
        [sys.executable, "-S", "-m", "swe_plugin.cli", "doctor", "--json"],
        env=os.environ | {"PYTHONPATH": f"{REPOSITORY}{os.pathsep}{site}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    found = findings(done.stdout)
    assert found["verl"]["value"] == "not installed"
    assert "pip install 'swe-plugin[cpu]'" in found["verl"]["fix"]
    assert {"Python", "memory", "open files", "namespaces", "dockerd"} <= found.keys()


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"VERL_USE_EXTERNAL_PLUGINS": "none"}, "VERL_USE_EXTERNAL_PLUGINS='none' keeps it out: unset it"),
        ({"PYTHONPATH": "BROKEN"}, "swe-plugin cannot start: ModuleNotFoundError"),
    ],
    ids=["kept out", "broken"],
)
def test_a_plugin_that_verl_did_not_load_shows_the_reason(tmp_path, monkeypatch, environment, reason):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['swe_plugin.verl_adapter.searchpath'] = None\n")
    for name, value in environment.items():
        monkeypatch.setenv(name, value.replace("BROKEN", f"{tmp_path}{os.pathsep}{REPOSITORY}"))
    result = tmp_path / "result.json"
    command = [sys.executable, "-m", "swe_plugin.verl_adapter.doctor", str(result), "+plugin=swe"]
    subprocess.run(command, capture_output=True, timeout=240, check=True)
    (finding,) = json.loads(result.read_text())["findings"]
    assert not finding["ok"]
    assert reason in finding["fix"]
