"""A run has a Ray session of its own, and its directory goes with the run."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from swe_plugin.environments import leases
from swe_plugin.environments.sandbox import close_zygote
from swe_plugin.verl_adapter.ray_session import RaySession


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    close_zygote()  # the end of a session ends every child of its process
    monkeypatch.setenv("SWE_PLUGIN_HOME", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


def settings(**values):
    return OmegaConf.create({"ray_kwargs": {"ray_init": values}})


def leased():
    return list(leases.lease_directory().glob("*.json"))


def test_the_directory_is_leased_before_ray_makes_it_and_gone_after_the_end():
    config = settings()
    session = RaySession(config)
    directory = Path(config.ray_kwargs.ray_init._temp_dir)
    assert not directory.exists()
    assert leased()
    (directory / "session_latest/logs").mkdir(parents=True)
    session.end()
    assert not directory.exists()
    assert not leased()


def test_the_logs_of_a_failed_run_are_kept(tmp_path):
    config = settings()
    session = RaySession(config)
    logs = Path(config.ray_kwargs.ray_init._temp_dir) / "session_latest/logs"
    logs.mkdir(parents=True)
    (logs / "worker.err").write_text("the cause")
    session.end(logs_to=tmp_path / "kept")
    assert (tmp_path / "kept" / "worker.err").read_text() == "the cause"


def test_a_directory_that_the_user_named_is_left_alone():
    config = settings(_temp_dir="/elsewhere")
    RaySession(config)
    assert config == settings(_temp_dir="/elsewhere")
    assert not leased()


@pytest.mark.parametrize("variable", [True, False])
def test_a_cluster_is_left_alone_and_not_told_how_many_processors_it_has(monkeypatch, variable):
    if variable:
        monkeypatch.setenv("RAY_ADDRESS", "auto")
    config = settings(address=None if variable else "auto", num_cpus=16, num_gpus=1)
    address = config.ray_kwargs.ray_init.address
    RaySession(config)
    assert config == settings(address=address, num_cpus=None, num_gpus=None)
    assert not leased()


def test_a_killed_driver_leaves_nothing_past_the_next_start():
    code = """
import os, signal
from omegaconf import OmegaConf
from swe_plugin.verl_adapter.ray_session import RaySession
config = OmegaConf.create({"ray_kwargs": {"ray_init": {}}})
RaySession(config)
os.makedirs(config.ray_kwargs.ray_init._temp_dir + "/session_1/sockets")
print(config.ray_kwargs.ray_init._temp_dir, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    driver = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    directory = Path(driver.stdout.strip())
    assert directory.is_dir(), driver.stderr
    report = leases.reap()
    assert not directory.exists()
    assert report.directories == 1


@pytest.mark.timeout(30)
def test_a_zombie_of_somebody_else_does_not_hold_the_end_up():
    code = "import subprocess, time; subprocess.Popen(['true']); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        parent.stdout.readline()
        began = time.monotonic()
        RaySession(settings()).end(patience_s=1.0)
        assert time.monotonic() - began < 10
        assert parent.wait(5) != 0
