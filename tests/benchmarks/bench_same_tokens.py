"""Overlap changes no token: `python tests/benchmarks/bench_same_tokens.py` (`make bench-same-tokens`).

Two real runs of the demo with one seed, `swe.overlap=off` and `prewarm`: the same prompts in the same order, sampled in
fp32, one sequence at a time, rows in a stable order (the recipe's sampler). Compares the ids of every rollout, step by
step. The first step has the same weights, so its ids must be equal; later ones are equal as far as two runs train to
the same weights. Writes a table to docs/benchmarks.md; exit code 1 if an id differs, or nothing was started ahead.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from page import machine, write_section
from verl_run import Run

from swe_plugin.cli.metrics import read_steps
from swe_plugin.trajectories.store import find_trajectories, load_trajectory
from swe_plugin.verl_adapter.demo_model import default_cache

STEPS = 4
WORDS = (
    "data.train_batch_size=4",
    "actor_rollout_ref.rollout.n=4",
    f"trainer.total_training_steps={STEPS}",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "swe.policy.seed=1",
    "actor_rollout_ref.rollout.max_num_seqs=1",
)
Rollout = tuple[int, str, int]
"""Step, instance, session."""


def sampled(run: Run) -> dict[Rollout, list[list[int]]]:
    """Ids of each segment of each rollout."""
    found = {}
    for path in find_trajectories(run.directory):
        t = load_trajectory(path)
        found[t.step, t.result.task.instance_id, t.result.session] = [segment.ids for segment in t.result.segments]
    return found


def play(home: Path, overlap: str) -> Run:
    """One run to its end."""
    run = Run(home, overlap, *WORDS, f"swe.overlap={overlap}")
    try:
        code = run.process.wait(1500)
    finally:
        run.end()
    assert code == 0, run.log.read_text(errors="replace")[-4000:]
    return run


def main() -> int:
    """Exit code: 1 if an id differs."""
    home = Path(tempfile.mkdtemp(prefix="swe-same-"))
    (home / "demo").symlink_to(default_cache() / "demo")
    lines = [
        f"`make bench-same-tokens` ({machine()}):",
        "",
        "| step | rollouts | with the same ids | ids | hidden_ratio with prewarm |",
        "|---|---|---|---|---|",
    ]
    fine = True
    try:
        off, prewarm = play(home, "off"), play(home, "prewarm")
        one, other = sampled(off), sampled(prewarm)
        steps = read_steps(prewarm.directory)
        hidden = {step.number: step.values.get("swe/overlap/hidden_ratio", 0.0) for step in steps}
        for step in range(1, STEPS + 1):
            mine = {key: ids for key, ids in one.items() if key[0] == step}
            assert mine, f"no rollout of step {step}"
            assert mine.keys() == {key for key in other if key[0] == step}, f"other prompts in step {step}"
            same = sum(ids == other[key] for key, ids in mine.items())
            count = sum(len(segment) for ids in mine.values() for segment in ids)
            fine = fine and same == len(mine) and (step == 1 or hidden[step] > 0.5)
            lines.append(f"| {step} | {len(mine)} | {same} | {count} | {hidden[step]:.3f} |")
            print(lines[-1], flush=True)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    write_section("same-tokens", "\n".join(lines))
    return int(not fine)


if __name__ == "__main__":
    sys.exit(main())
