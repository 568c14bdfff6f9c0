"""The command line as a process with a node state of its own, and what it must not leave."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import psutil

from swe_plugin.environments.home import home


@contextmanager
def running(tmp_path, *words):
    """The process; killed at the end."""
    state = tmp_path / "home"
    state.mkdir()
    (home() / "images").mkdir(parents=True, exist_ok=True)
    (state / "images").symlink_to(home() / "images")
    process = subprocess.Popen(
        [sys.executable, "-m", "swe_plugin.cli", *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"SWE_PLUGIN_HOME": str(state)},
        # A shell starts its background jobs deaf to Ctrl-C, and their children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(found, process):
    while not found():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)


def lines_of(path):
    return path.read_text().count("\n") if path.exists() else 0


def leases(tmp_path):
    """Names of the leases that the process holds."""
    return [path.stem for path in (tmp_path / "home/leases").rglob("*") if path.is_file()]


def assert_stopped(process, code, err, tmp_path, held):
    """It ended as told, and nothing of the leases that it `held` is left."""
    assert process.returncode == code, err
    assert b"Traceback" not in err
    assert held
    assert not leases(tmp_path)
    commands = [" ".join(other.info["cmdline"] or []) for other in psutil.process_iter(["cmdline"])]
    assert not [command for command in commands if any(lease in command for lease in held)]
