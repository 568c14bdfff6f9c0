"""The commands as a user calls them."""

import json

import pytest
from typer.testing import CliRunner

from swe_plugin.cli.app import build_app
from swe_plugin.cli.train import training_command


@pytest.fixture
def call():
    return lambda *words: CliRunner().invoke(build_app(), list(words))


def test_the_command_is_verls_own():
    assert training_command("", []) == ["python", "-m", "verl.trainer.main_ppo", "+plugin=swe"]
    assert training_command("demo_ppo", ["a.b=1"])[-2:] == ["+plugin=swe/demo_ppo", "a.b=1"]


def test_plugins_as_data_names_the_distribution_of_each_entry(call):
    listed = json.loads(call("plugins", "--json").stdout)
    assert listed["broken"] == []
    assert {"kind": "scaffolds", "name": "bash", "distribution": "swe-plugin"}.items() <= {
        key: value for entry in listed["registered"] if entry["name"] == "bash" for key, value in entry.items()
    }.items()


def test_report_as_data(call, run_dir):
    assert json.loads(call("report", str(run_dir), "--json").stdout)["steps"] == 12


def test_report_of_something_else_is_an_error(call, tmp_path):
    result = call("report", str(tmp_path))
    assert result.exit_code == 2
    assert "is no run" in result.stderr


def test_version_names_what_is_driven(call):
    assert "verl 0.9" in call("version").stdout


def test_recipes_are_listed_with_a_line_each(call):
    listed = json.loads(call("recipes", "--json").stdout)
    assert listed[0]["name"] == "swe"
    assert all(recipe["summary"] for recipe in listed)


@pytest.mark.parametrize("command", ["recipes", "plugins"])
def test_names_are_whole_in_a_narrow_table(call, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    data = json.loads(call(command, "--json").stdout)
    names = [entry["name"] for entry in (data if command == "recipes" else data["registered"])]
    shown = call(command).stdout
    assert "…" not in shown
    assert [name for name in names if f"{name} " not in shown] == []
