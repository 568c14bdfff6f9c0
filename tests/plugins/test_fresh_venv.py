"""The example distribution, installed by pip into a venv of its own, as a third party's users would."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "tests/example_plugin"
BUILT = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")  # pip would leave its own in the tree

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with `bin`, into which both distributions are installed, and no way to this tree."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    shutil.copytree(EXAMPLE, folder / "source", ignore=BUILT)
    pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    wanted = [str(ROOT), str(folder / "source"), "pytest", "pytest-asyncio"]
    subprocess.run([*pip, *wanted], check=True, timeout=280, env=clean_env(folder))
    return folder


def clean_env(folder):
    kept = {
        key: value for key, value in os.environ.items() if key.startswith(("PIP_", "SSL_", "HTTP")) or key == "PATH"
    }
    return {**kept, "HOME": str(folder), "SWE_PLUGIN_HOME": str(folder / "state")}


def run(here, *command):
    return subprocess.run(
        [here / "bin" / command[0], *command[1:]],
        cwd=here / "source",
        env=clean_env(here),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_the_backend_is_found_through_its_entry_point(here):
    done = run(here, "swe-plugin", "plugins", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "swe-plugin-example" in done.stdout
    listed = json.dumps(json.loads(done.stdout))
    assert "example_bwrap" in listed
    assert "example_fraction" in listed


def test_a_third_party_runs_the_suite_from_the_wheel(here):
    done = run(here, "python", "-m", "pytest", "-q", "test_environment.py", "-k", "start or cpu_time or survive", "-rs")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lacks cpu_limit: bubblewrap limits nothing" in done.stdout
    assert " passed" in done.stdout
