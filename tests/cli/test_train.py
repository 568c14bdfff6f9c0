"""`train` around any command: prints it, follows it, ends it, and leaves nothing behind.

The commands here are small stand-ins written in Python; verl itself runs under it in tests/verl_adapter.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

DRIVER = """
import sys, rich.console
from swe_plugin.cli.train import train
sys.exit(train(["python", "-c", sys.argv[1]], rich.console.Console(width=200, highlight=False), grace_s=0.3))
"""
TRAINS = """
import json, pathlib
run = pathlib.Path({run!r}); run.mkdir()
print("Creating file logger at", run / "metrics.jsonl")
with open(run / "metrics.jsonl", "w") as file:
    for step in (1, 2):
        print(json.dumps({{"step": step, "data": {{"critic/score/mean": step / 2}}}}), file=file)
"""
ORPHANS = """
import subprocess, sys, time
deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", deaf], start_new_session=True)
open({pids!r}, "w").write(str(child.pid))
print("started", flush=True)
{then}
"""


def start(code: str, tmp_path: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, code],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )


def wait_for(path: Path) -> int:
    deadline = time.monotonic() + 20
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return int(path.read_text())


def test_it_prints_the_command_shows_steps_and_ends_with_the_report(tmp_path):
    run = tmp_path / "run"
    process = start(TRAINS.format(run=str(run)), tmp_path)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert output.startswith("$ python -c ")
    assert "step   2  reward 1.000" in output
    assert "reward, first 1 steps -> last" in output
    assert f"log: {run / 'train.log'}" in output
    assert "Creating file logger" in (run / "train.log").read_text()
    assert not list(tmp_path.glob("swe-*"))


def test_a_failing_command_shows_why_and_passes_its_exit_code_on(tmp_path):
    process = start("print('before'); raise SystemExit('swe-plugin cannot start: reason')", tmp_path)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "swe-plugin cannot start: reason" in output
    assert "failed with exit code 1" in output
    (log,) = tmp_path.glob("swe-*/train.log")
    assert f"log: {log}" in output


def test_a_refused_run_shows_what_was_said_once_and_keeps_no_log(tmp_path):
    process = start(
        "import sys; sys.exit(print('swe-plugin: swe.demo.seed=x: say a number', file=sys.stderr) or 2)", tmp_path
    )
    shown = process.communicate(timeout=60)[0]
    assert process.returncode == 2
    assert shown.splitlines()[1:] == ["swe-plugin: swe.demo.seed=x: say a number"]
    assert not list(tmp_path.rglob("train.log"))


def test_descendants_that_outlive_the_command_are_ended(tmp_path):
    pids = tmp_path / "pids"
    process = start(ORPHANS.format(pids=str(pids), then=""), tmp_path)
    process.communicate(timeout=40)
    assert process.returncode == 0
    assert not psutil.pid_exists(int(pids.read_text()))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_lets_the_command_clean_up(tmp_path, how):
    pids, cleaned = tmp_path / "pids", tmp_path / "cleaned"
    then = f"""
try:
    time.sleep(600)
finally:
    child.kill(); child.wait(); open({str(cleaned)!r}, "w").write("1")
"""
    process = start(ORPHANS.format(pids=str(pids), then=then), tmp_path)
    orphan = wait_for(pids)
    process.send_signal(how)
    output, _ = process.communicate(timeout=40)
    assert process.returncode == 130
    assert "stopping" in output
    assert cleaned.exists()
    assert not list(tmp_path.glob("swe-*"))
    assert not psutil.pid_exists(orphan)


def test_a_second_interrupt_kills_a_command_that_does_not_stop(tmp_path):
    pids = tmp_path / "pids"
    then = "import signal; signal.signal(2, signal.SIG_IGN); open({!r}, 'w').write('1'); time.sleep(600)"
    deaf = tmp_path / "deaf"
    process = start(ORPHANS.format(pids=str(pids), then=then.format(str(deaf))), tmp_path)
    orphan = wait_for(pids)
    wait_for(deaf)
    process.send_signal(signal.SIGINT)
    time.sleep(0.8)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=40)
    assert process.returncode == 130
    assert not psutil.pid_exists(orphan)
