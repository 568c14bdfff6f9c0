"""kill -9 of every kind of process in a real run: `python tests/benchmarks/bench_kills.py [VICTIM ...]`.

For each victim: a run of the demo with checkpoints, killed in mid-step. A dead agent-loop worker is replaced and the
run goes on, also if a whole node dies that holds only such workers and their environments; the death of anything else
ends the run, non-zero, and the same command takes it up again. After each, nothing may be left: no process, no lease.
With dockerd dead the run stops and says so. Writes a table to
docs/benchmarks.md, unless victims are named; exit code 1 if a row is not so.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
from page import machine, write_section
from verl_run import MARK, Run, left_over

sys.path.insert(0, str(Path(__file__).parents[1]))

from environments.docker.dockerd import running_dockerd
from ray.cluster_utils import Cluster

from swe_plugin.verl_adapter.demo_model import default_cache
from swe_plugin.verl_adapter.manager import NODE_RESOURCE

ENDS_WITHIN_S = 60.0
WORDS = (
    "data.train_batch_size=4",
    "data.val_max_samples=4",
    "actor_rollout_ref.rollout.n=4",
    "trainer.save_freq=1",
    "trainer.val_before_train=false",
    "swe.overlap=prewarm",
)
DOCKERD, NODE, WORKER = "dockerd", "another node", "agent-loop worker"
GOES_ON = (WORKER, NODE)
VICTIMS = {
    WORKER: "ray::SweAgentLoopWorker",
    "vLLM's engine": "VLLM::EngineCore",
    "vLLM's server": "ray::vLLMHttpServer",
    "trainer rank": "ray::WorkerDict",
    "trainer's driver": "ray::TaskRunner",
    "rollout queue": "ray::TransferQueueController",
    "head (raylet)": "raylet/raylet",
    "the command itself": "verl.trainer.main_ppo",
    NODE: "",
    DOCKERD: "",
}
"""Name in the table -> part of its command line. The last two are no processes of the run."""


@dataclass
class Row:
    """What came of one kill."""

    victim: str
    outcome: str
    seconds: float
    resumed: str
    left: str
    ok: bool


def play(
    home: Path,
    victim: str,
    kill: Callable[[Run], object],
    *words: str,
    repair: Callable[[], object] = lambda: None,
) -> Row:
    """Kill one kind of process in step 3 or later, and look."""
    name = "".join(letter if letter.isalnum() else "-" for letter in victim)
    words = (*WORDS, "trainer.total_training_steps=500", *words)
    run = Run(home, name, *words)
    try:
        if not run.wait_for_step(2):
            return Row(victim, "did not get to step 2: " + run.log.read_text()[-300:], 0, "-", "-", False)
        done = max(run.steps())
        assert kill(run), f"no {victim} to kill"
        began = time.monotonic()
        if victim in GOES_ON:
            goes_on = run.wait_for_step(done + 3)
            seconds = time.monotonic() - began
            run.end()
            if not goes_on:
                print(run.log.read_text(errors="replace")[-12000:], file=sys.stderr)
            repair()
            left = left_over(run, home)
            return Row(victim, "goes on" if goes_on else "ends", seconds, "-", left, goes_on and left.startswith("0"))
        try:
            code: int | str = run.process.wait(ENDS_WITHIN_S * 3)
        except subprocess.TimeoutExpired:
            code = "hangs"
        seconds = time.monotonic() - began
        repair()
        left = left_over(run, home)
    finally:
        run.end()
    again = Run(home, name, *words)
    try:
        last = max(run.steps())
        resumed = again.wait_for_step(last + 1)
        first = min(again.steps() - run.steps(), default=0) if resumed else 0
    finally:
        again.end()
    reason = "TooManyFailures" in run.log.read_text(errors="replace") if victim == DOCKERD else True
    ok = code not in (0, "hangs") and seconds <= ENDS_WITHIN_S and resumed and reason
    ok = ok and left == "0 processes, 0 leases"
    outcome = f"exit code {code}" + (", with the reason" if victim == DOCKERD and reason else "")
    return Row(victim, outcome, seconds, f"yes, at {first or last + 1}" if resumed else "no", left, ok)


def play_dockerd(home: Path) -> Row:
    """The daemon of `swe.environment.backend=docker`, one of this run's own, started again before the run is."""
    root = home / "dockerd"
    root.mkdir()
    with running_dockerd(root) as daemon:
        words = ("swe.environment.backend=docker", f"+swe.environment.options.host={daemon.host}")
        os.environ["DOCKER_HOST"] = daemon.host  # for `swe-plugin clean`

        def kill(_: Run) -> bool:
            daemon.crash()
            return True

        return play(home, DOCKERD, kill, *words, repair=daemon.start)


def play_node(home: Path) -> Row:
    """A cluster of two raylets, the other one for an agent-loop worker and its environments alone."""
    directory = tempfile.mkdtemp(prefix="swe-nodes-")  # a short name, for sockets
    os.environ[MARK] = uuid.uuid4().hex  # the cluster's processes are the run's
    marked = {"resources": {NODE_RESOURCE: 1}}
    head = {"num_cpus": 16, "num_gpus": 1, "temp_dir": directory, **marked}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    node = cluster.add_node(num_cpus=0, **marked)
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)

    def kill(_: Run) -> bool:
        there = [raylet, *raylet.children(recursive=True)]
        names = [" ".join(process.cmdline()) for process in there]
        for process in there:
            process.kill()
        return any("AgentLoopWorker" in name for name in names)

    try:
        address = f"ray_kwargs.ray_init.address={cluster.address}"
        words = (address, "actor_rollout_ref.rollout.agent.num_workers=2")
        return play(home, NODE, kill, *words, repair=cluster.shutdown)
    finally:
        cluster.shutdown()
        del os.environ[MARK]
        shutil.rmtree(directory, ignore_errors=True)


def main(chosen: list[str]) -> int:
    """Exit code: 1 if something is not as promised."""
    home = Path(tempfile.mkdtemp(prefix="swe-kills-"))
    (home / "demo").symlink_to(default_cache() / "demo")
    rows = []
    try:
        for victim, part in VICTIMS.items():
            if chosen and victim not in chosen:
                continue
            kill = partial(Run.kill, part=part)
            others = {DOCKERD: play_dockerd, NODE: play_node}
            rows.append(others[victim](home) if victim in others else play(home, victim, kill))
            print(rows[-1], flush=True)
            if not chosen:
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
