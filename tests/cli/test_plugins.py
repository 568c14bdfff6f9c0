"""`swe-plugin plugins`, and commands that plugins add: the tool works whatever is installed beside it."""

import json
import os
import subprocess
import sys

import pytest
from plugins.distributions import backend, install

COMMAND = """
import typer
from swe_plugin.hookspecs import hookimpl

app = typer.Typer()

@app.command()
def hello():
    print("hello from", __name__)

number = 3

@hookimpl
def swe_register_commands(register):
    register({name!r}, {target!r}, summary="a test command")
"""


@pytest.fixture
def call(tmp_path):
    def call(*words, **environment):
        path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
        return subprocess.run(
            [sys.executable, "-m", "swe_plugin.cli", *words],
            env=os.environ | {"PYTHONPATH": path, "COLUMNS": "200"} | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return call


def test_what_came_from_where_and_what_is_broken(call, tmp_path):
    install(tmp_path, "swe-k8s", backend("k8s"), version="1.2")
    install(tmp_path, "swe-bad", "import no_such_module", version="0.3")
    install(tmp_path, "swe-off", "never", version="2")
    done = call("plugins", "--json", SWE_PLUGIN_DISABLE="swe-off")
    listed = json.loads(done.stdout)
    assert done.returncode == 1
    (k8s,) = [entry for entry in listed["registered"] if entry["name"] == "k8s"]
    assert (k8s["kind"], k8s["distribution"], k8s["version"]) == ("environments", "swe-k8s", "1.2")
    (bad,) = listed["broken"]
    assert (bad["distribution"], bad["version"], bad["entry_point"]) == ("swe-bad", "0.3", "swe_bad")
    assert bad["reason"] == "ModuleNotFoundError: No module named 'no_such_module'"
    assert [source["distribution"] for source in listed["disabled"]] == ["swe-off"]
    shown = call("plugins", SWE_PLUGIN_DISABLE="swe-off")
    assert "k8s" in shown.stdout
    assert "swe-bad 0.3 (entry point swe_bad) is broken: ModuleNotFoundError" in shown.stderr
    assert shown.returncode == 1


def test_nothing_broken_is_exit_code_0(call):
    assert call("plugins").returncode == 0


def test_a_plugins_command_runs_beside_ours(call, tmp_path):
    install(tmp_path, "swe-hello", COMMAND.format(name="greet", target="swe_hello:app"))
    assert call("greet", "hello").stdout == "hello from swe_hello\n"


@pytest.mark.parametrize(
    ("target", "why"), [("swe_hello:absent", "cannot import swe_hello:absent"), ("swe_hello:number", "no typer app")]
)
def test_a_broken_command_says_so_when_it_is_called_and_costs_no_other(call, tmp_path, target, why):
    install(tmp_path, "swe-hello", COMMAND.format(name="greet", target=target))
    assert call("version").stderr == ""
    done = call("greet", "--to", "me")
    assert done.returncode == 1
    assert "command 'greet' of swe-hello" in done.stderr
    assert why in done.stderr


def test_a_command_never_replaces_ours(call, tmp_path):
    install(tmp_path, "swe-hello", COMMAND.format(name="version", target="swe_hello:app"))
    done = call("version")
    assert done.stdout.startswith("swe-plugin ")
    assert "command 'version' of swe-hello: the name is that of a command of ours" in done.stderr
