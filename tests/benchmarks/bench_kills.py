"""kill -9 of every kind of process in a real run: `python tests/benchmarks/bench_kills.py` (`make bench-kills`).

For each victim: a run of the demo with checkpoints, killed in mid-step. A dead agent-loop worker is replaced and the
run goes on; the death of anything else ends the run, non-zero, and the same command takes it up again. After each,
nothing may be left: no process, no lease. Writes a table to docs/benchmarks.md; exit code 1 if a row is not so.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import psutil
from page import machine, write_section

from swe_plugin.verl_adapter.demo_model import default_cache

MARK = "SWE_PLUGIN_BENCH_RUN"
ENDS_WITHIN_S = 60.0
WORDS = (
    "data.train_batch_size=4",
    "data.val_max_samples=4",
    "actor_rollout_ref.rollout.n=4",
    "trainer.save_freq=1",
    "trainer.val_before_train=false",
    "swe.overlap=prewarm",
)
VICTIMS = {
    "agent-loop worker": "ray::SweAgentLoopWorker",
    "vLLM's engine": "VLLM::EngineCore",
    "vLLM's server": "ray::vLLMHttpServer",
    "trainer rank": "ray::WorkerDict",
    "trainer's driver": "ray::TaskRunner",
    "rollout queue": "ray::TransferQueueController",
    "head (raylet)": "raylet/raylet",
    "the command itself": "verl.trainer.main_ppo",
}
"""Name in the table -> part of its command line."""


@dataclass
class Row:
    """What came of one kill."""

    victim: str
    outcome: str
    seconds: float
    resumed: str
    left: str
    ok: bool


class Run:
    """One run in a session of its own, its descendants recognisable by their environment."""

    def __init__(self, home: Path, name: str, *words: str) -> None:
        self.directory, self.mark = home / "outputs" / name, uuid.uuid4().hex
        self.log = home / f"{name}-{self.mark[:6]}.log"
        command = [sys.executable, "-m", "verl.trainer.main_ppo", "+plugin=swe", *WORDS, *words]
        command += [f"swe.output.dir={self.directory.parent}", f"swe.output.run={name}"]
        variables = os.environ | {"SWE_PLUGIN_HOME": str(home), "PYTHONUNBUFFERED": "1", MARK: self.mark}
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                command, env=variables, stdout=output, stderr=output, start_new_session=True, cwd=home
            )

    def steps(self) -> set[int]:
        """Steps that were logged, by this run and those before it."""
        lines = [line for path in self.directory.glob("metrics*.jsonl") for line in path.read_text().splitlines()]
        return {json.loads(line)["step"] for line in lines if line.endswith("}")}

    def wait_for_step(self, step: int, within_s: float = 400.0) -> bool:
        """Whether a step at or after `step` is logged before the run or the time is over."""
        end = time.monotonic() + within_s
        while time.monotonic() < end:
            if max(self.steps(), default=0) >= step:
                return True
            if self.process.poll() is not None:
                return False
            time.sleep(0.3)
        return False

    def processes(self) -> list[psutil.Process]:
        """Everything of this run that lives."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def kill(self, part: str) -> bool:
        """kill -9 of the first process whose name or command line holds `part`."""
        for process in self.processes():
            try:
                if part in " ".join(process.cmdline()) or part in process.name():
                    process.kill()
                    return True
            except psutil.Error:
                continue
        return False

    def end(self) -> None:
        """Ctrl-C, then kill what is left."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
        for process in self.processes():
            try:
                process.kill()
            except psutil.Error:
                continue


def left_over(run: Run, home: Path) -> str:
    """What remains half a minute after the end and after the reaper that the next start would run."""
    variables = os.environ | {"SWE_PLUGIN_HOME": str(home)}
    end = time.monotonic() + 30
    while True:
        subprocess.run([Path(sys.executable).parent / "swe-plugin", "clean"], env=variables, capture_output=True)
        left, leases = run.processes(), list(home.glob("leases/*/*.json"))
        if not (left or leases) or time.monotonic() > end:
            break
        time.sleep(0.5)
    return f"{len(left)} processes, {len(leases)} leases"


def play(home: Path, victim: str, part: str) -> Row:
    """Kill one kind of process in step 3 or later, and look."""
    name = victim.replace(" ", "-").replace("'", "").replace("(", "").replace(")", "")
    run = Run(home, name, "trainer.total_training_steps=500")
    try:
        if not run.wait_for_step(2):
            return Row(victim, "did not get to step 2: " + run.log.read_text()[-300:], 0, "-", "-", False)
        done = max(run.steps())
        assert run.kill(part), f"no process {part}"
        began = time.monotonic()
        if victim == "agent-loop worker":
            goes_on = run.wait_for_step(done + 3)
            seconds = time.monotonic() - began
            run.end()
            left = left_over(run, home)
            return Row(victim, "goes on" if goes_on else "ends", seconds, "-", left, goes_on and left.startswith("0"))
        try:
            code: int | str = run.process.wait(ENDS_WITHIN_S * 3)
        except subprocess.TimeoutExpired:
            code = "hangs"
        seconds = time.monotonic() - began
        left = left_over(run, home)
    finally:
        run.end()
    again = Run(home, name, "trainer.total_training_steps=500")
    try:
        last = max(run.steps())
        resumed = again.wait_for_step(last + 1)
        first = min(again.steps() - run.steps(), default=0) if resumed else 0
    finally:
        again.end()
    ok = code not in (0, "hangs") and seconds <= ENDS_WITHIN_S and resumed and left == "0 processes, 0 leases"
    return Row(victim, f"exit code {code}", seconds, f"yes, at {first or last + 1}" if resumed else "no", left, ok)


def main(chosen: list[str]) -> int:
    """Exit code: 1 if something is not as promised."""
    home = Path(tempfile.mkdtemp(prefix="swe-kills-"))
    (home / "demo").symlink_to(default_cache() / "demo")
    rows = []
    try:
        for victim, part in VICTIMS.items():
            if chosen and victim not in chosen:
                continue
            rows.append(play(home, victim, part))
            print(rows[-1], flush=True)
            write_section("bench-kills", table(rows))
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return int(not all(row.ok for row in rows))


def table(rows: list[Row]) -> str:
    """For the page."""
    lines = [
        f"`make bench-kills` ({machine()}).",
        "",
        "| kill -9 of | the run | after, s | the same command goes on | left after the next start |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(f"| {row.victim} | {row.outcome} | {row.seconds:.0f} | {row.resumed} | {row.left} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
