"""`swe-plugin new`: what it writes is installed, registered and tested."""

import importlib.metadata
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from swe_plugin.cli.app import build_app
from swe_plugin.cli.new.writer import KINDS
from swe_plugin.plugins import load_plugins

EXAMPLE = Path(__file__).parents[1] / "example_plugin" / "swe_plugin_example"


def new(*words):
    return CliRunner().invoke(build_app(), ["new", *map(str, words)])


@pytest.fixture(params=KINDS)
def written(request, tmp_path):
    """Kind and folder of a package."""
    done = new(request.param, "my-own", "--out", tmp_path / "made")
    assert done.exit_code == 0, done.output
    return request.param, tmp_path / "made"


def test_it_registers_what_it_is_named_for(written, monkeypatch):
    kind, folder = written
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = folder / "swe_plugin_my_own-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    ((name, target),) = project["entry-points"]["swe_plugin"].items()
    (info / "entry_points.txt").write_text(f"[swe_plugin]\n{name} = {target}\n")
    monkeypatch.syspath_prepend(str(folder))
    load_plugins.cache_clear()
    try:
        plugins = load_plugins()
        assert not plugins.broken
        assert plugins.entries[KINDS[kind], "my_own"].distribution == "swe-plugin-my-own"
        assert plugins.load(KINDS[kind], "my_own", "key")
    finally:
        load_plugins.cache_clear()
        for module in [m for m in sys.modules if m.startswith("swe_plugin_my_own")]:
            del sys.modules[module]
    assert importlib.metadata.version("swe-plugin")


@pytest.mark.slow
def test_its_own_tests_pass(written):
    _, folder = written
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout


def test_the_backend_is_the_one_that_is_explained(tmp_path):
    assert new("backend", "bubblewrap", "--out", tmp_path).exit_code == 0
    made = (tmp_path / "swe_plugin_bubblewrap" / "environment.py").read_text()
    assert made.replace("swe-plugin-bubblewrap-", "swe-example-") == (EXAMPLE / "environment.py").read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("agent", "mine"), "KIND='agent': there are scaffold, backend, dataset"),
        (("scaffold", "My Agent"), "NAME='My Agent': must be lower-case"),
        (("scaffold", "mine", "--out", Path(__file__).parent), "is not empty"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_is_written(words, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = new(*words)
    assert done.exit_code == 2
    assert says in " ".join(done.stderr.split())
    assert not list(tmp_path.iterdir())
