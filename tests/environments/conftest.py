"""A node state directory of its own for these tests; built images come from (and go to) the real store."""

import os
import re
import subprocess

import pytest
import pytest_asyncio

from swe_plugin.environments import AGENT_ENV, EnvironmentLimits, EnvironmentSpec
from swe_plugin.environments.home import home as node_state
from swe_plugin.environments.images import resolve
from swe_plugin.environments.images.host import host_image_key
from swe_plugin.environments.images.store import ImageStore
from swe_plugin.environments.sandbox import SandboxEnvironment, close_zygote
from swe_plugin.environments.sandbox.owner import current_zygote
from swe_plugin.environments.sandbox.probe import MODES, require_mode, try_mode
from swe_plugin.types import Image

FILES = {"calc.py": "def add(a, b):\n    return a - b\n", "pkg/data.txt": "one\ntwo\n"}
AGENT = (1000, 1000) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
"""Who owns the layers of the mode that is preferred here."""


@pytest.fixture(scope="session", autouse=True)
def swe_home(tmp_path_factory):
    """Leases and trials in a temporary directory, removed with it; nothing of the sandboxes may be left at the end."""
    shared = node_state() / "images"
    shared.mkdir(exist_ok=True)
    path = tmp_path_factory.mktemp("home")
    (path / "images").symlink_to(shared)
    before = os.environ.get("SWE_PLUGIN_HOME")
    close_zygote()  # one that other tests started has its lease in another home, where no reaping looks from here
    os.environ["SWE_PLUGIN_HOME"] = str(path)
    yield path
    close_zygote()
    require_mode.cache_clear()
    leases = [str(lease) for lease in (path / "leases").rglob("*.json")]
    if before is None:
        del os.environ["SWE_PLUGIN_HOME"]
    else:
        os.environ["SWE_PLUGIN_HOME"] = before
    assert not leases, leases


@pytest.fixture(scope="module")
def home(tmp_path_factory, swe_home):
    """A state directory with the host image alone, so that what a module's tests build goes with them."""
    path, before = tmp_path_factory.mktemp("images"), os.environ["SWE_PLUGIN_HOME"]
    host = resolve(Image(), owner=AGENT).directories[-1]
    os.environ["SWE_PLUGIN_HOME"] = str(path)
    (path / "images").mkdir()
    (path / "images" / host.name).symlink_to(host.resolve())
    yield path
    os.environ["SWE_PLUGIN_HOME"] = before


@pytest.fixture
def own_home(tmp_path, monkeypatch, swe_home):
    """A state directory of its own whose store has the host image already."""
    host = ImageStore().root / host_image_key()
    (tmp_path / "images").mkdir()
    if host.is_dir():
        (tmp_path / "images" / host.name).symlink_to(host)
        (tmp_path / "images/entries").mkdir()
        (tmp_path / "images/entries" / f"{host.name}.json").symlink_to(host.parent / f"entries/{host.name}.json")
    monkeypatch.setenv("SWE_PLUGIN_HOME", str(tmp_path))
    return tmp_path


def spec(*, mode="auto", files=FILES, **limits):
    """Spec of a small sandbox."""
    options = {"mode": mode}
    return EnvironmentSpec(Image(files=files), EnvironmentLimits(**limits), AGENT_ENV, label="test", options=options)


def skip_unless(mode):
    """Skip if this machine cannot run the mode; says why."""
    if reason := try_mode(current_zygote(), mode):
        pytest.skip(f"mode {mode}: {reason}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox():
    """One sandbox in the preferred mode for all cheap checks of a module."""
    async with SandboxEnvironment(spec()) as environment:
        yield environment


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=MODES)
async def each_mode(request):
    """One sandbox per mode and module."""
    skip_unless(request.param)
    limits = {"memory_mib": 128, "disk_mib": 32, "pids": 64}
    async with SandboxEnvironment(spec(mode=request.param, **limits)) as environment:
        yield environment


def host_processes(marker):
    """Process ids of this machine whose command line holds `marker`."""
    out = subprocess.run(["pgrep", "-f", "--", re.escape(marker)], capture_output=True, text=True, check=False).stdout
    return [int(pid) for pid in out.split() if int(pid) != os.getpid()]
