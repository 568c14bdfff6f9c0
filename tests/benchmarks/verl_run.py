"""Real runs of verl for the benchmarks: started, watched, killed, and looked for afterwards."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil

MARK = "SWE_PLUGIN_BENCH_RUN"


class Run:
    """One run in a session of its own, its descendants recognisable by their environment."""

    def __init__(self, home: Path, name: str, *words: str, **variables: str) -> None:
        self.directory, self.mark = home / "outputs" / name, os.environ.get(MARK) or uuid.uuid4().hex
        self.log = home / f"{name}-{self.mark[:6]}.log"
        command = [sys.executable, "-m", "verl.trainer.main_ppo", "+plugin=swe", *words]
        command += [f"swe.output.dir={self.directory.parent}", f"swe.output.run={name}"]
        ours = {"SWE_PLUGIN_HOME": str(home), "PYTHONUNBUFFERED": "1", MARK: self.mark}
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                env=os.environ | ours | variables,
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd=home,
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

    def find(self, part: str) -> psutil.Process | None:
        """The first process whose name or command line holds `part`."""
        for process in self.processes():
            try:
                if part in " ".join(process.cmdline()) or part in process.name():
                    return process
            except psutil.Error:
                continue
        return None

    def kill(self, part: str) -> bool:
        """kill -9 of the first process whose name or command line holds `part`."""
        process = self.find(part)
        if process is not None:
            process.kill()
        return process is not None

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
