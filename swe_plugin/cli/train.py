"""`swe-plugin train`: run verl with the plugin, show its progress, end with the report."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from swe_plugin.cli.child import ChildTree
from swe_plugin.cli.follow import RunFollower, useful_lines
from swe_plugin.cli.interrupts import INTERRUPTED
from swe_plugin.cli.metrics import REWARD, STEP_S, Step, held_out
from swe_plugin.cli.report import RESOLVED, print_report
from swe_plugin.environments.leases import ResourceLease
from swe_plugin.errors import PluginError

__all__ = ["REFUSED", "train", "training_command"]

REFUSED = 2
"""Exit code of a run that a wrong setting ended before Ray started; its whole log is what to change."""
LOG_FILE = "train.log"
TRAINING = "training"
_STOP_GRACE_S = 60.0


def training_command(recipe: str, words: Sequence[str]) -> list[str]:
    """The command a user would type: verl's own entry point with the plugin selected."""
    selected = f"swe/{recipe}" if recipe else "swe"
    return ["python", "-m", "verl.trainer.main_ppo", f"+plugin={selected}", *words]


def train(command: Sequence[str], console: Console, *, grace_s: float = 10.0) -> int:
    """Run `command` to its end and print the report.

    Args:
        command: argv; its first word is looked up beside this Python first.
        console: where progress and report go.
        grace_s: how long what the command started may outlive it.

    Returns:
        0; the command's exit code where it failed; `INTERRUPTED` after Ctrl-C.

    Raises:
        PluginError: verl is not installed here, or would not load the plugin and train without it.
    """
    _check_installed()
    console.print(f"[bold]$ {escape(' '.join(command))}[/bold]", soft_wrap=True)
    lease = ResourceLease("train log", directories=[Path(tempfile.gettempdir())])
    log = lease.directories[0] / LOG_FILE
    log.parent.mkdir()
    follower = RunFollower(log)
    with log.open("wb") as output, _interrupts() as interrupts:
        child = ChildTree(command, _environment(), output)
        try:
            code = _watch(child, follower, interrupts, console)
        finally:
            if child.process.poll() is None:
                child.kill()
            child.end(grace_s)
            _reap_leases(console)
            lease.release()  # from here on the log is the user's
    if follower.run_dir is None and code in (INTERRUPTED, REFUSED):
        if code == REFUSED:
            console.print(log.read_text("utf-8", "replace").rstrip(), markup=False, soft_wrap=True)
        shutil.rmtree(log.parent)
        return code
    _finish(code, _keep_log(log, follower.run_dir), follower.run_dir, console)
    return code


def _watch(child: ChildTree, follower: RunFollower, interrupts: list[int], console: Console) -> int:
    asked_at: float | None = None
    phase = ""
    with console.status("starting") as status:
        while (code := child.wait(0.5)) is None:
            for step in follower.poll():
                console.print(_step_line(step, follower.total))
                follower.phase = TRAINING
            if follower.phase != phase:
                phase = follower.phase
                status.update(escape(phase))
                if not console.is_terminal and phase != TRAINING:
                    console.print(escape(phase))
            if interrupts and asked_at is None:
                asked_at = time.monotonic()
                console.print("stopping; once more Ctrl-C kills it")
                child.interrupt()
            if asked_at and (len(interrupts) > 1 or time.monotonic() - asked_at > _STOP_GRACE_S):
                child.kill()
        for step in follower.poll():
            console.print(_step_line(step, follower.total))
    return INTERRUPTED if interrupts else code


def _step_line(step: Step, total: int | None) -> str:
    parts = [f"step {step.number:>3}" + (f"/{total}" if total else "")]
    names = (("reward", step.values.get(REWARD)), ("resolved", step.values.get(RESOLVED)), ("held-out", held_out(step)))
    parts += [f"{name} {value:.3f}" for name, value in names if value is not None]
    if STEP_S in step.values:
        parts.append(f"{step.values[STEP_S]:.1f} s")
    return "  ".join(parts)


def _check_installed() -> None:
    if importlib.util.find_spec("verl") is None:
        raise PluginError("verl is not installed here: pip install 'swe-plugin[cpu]' (or [gpu])")
    if not any(point.module.startswith("swe_plugin.") for point in entry_points(group="verl.plugins")):
        raise PluginError("verl would not load this plugin, because it is not installed here: pip install -e .")


def _environment() -> dict[str, str]:
    """Ours, with this Python first on the path, so that `python` in the command is this one."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return os.environ | {"PATH": path, "PYTHONUNBUFFERED": "1"}


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Collects the signals that ask us to stop; earlier handlers come back at the end."""
    seen: list[int] = []
    watched = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda number, _: seen.append(number)) for number in watched}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _reap_leases(console: Console) -> None:
    from swe_plugin.cli.clean import clean

    clean(console, quiet=True)


def _keep_log(log: Path, run_dir: Path | None) -> Path:
    """Move the log into the run's directory, if there is one."""
    if run_dir is None or not run_dir.is_dir():
        return log
    kept = Path(shutil.move(log, run_dir / LOG_FILE))
    log.parent.rmdir()
    return kept


def _finish(code: int, log: Path, run_dir: Path | None, console: Console) -> None:
    if code not in (0, INTERRUPTED):
        console.print("\n".join(useful_lines(log.read_text("utf-8", "replace"))), markup=False, soft_wrap=True)
        console.print(f"[red]failed with exit code {code}[/red]")
    if run_dir is not None and any(run_dir.glob("metrics.jsonl")):
        print_report(run_dir, console)
    console.print(f"log: {log}", soft_wrap=True)
