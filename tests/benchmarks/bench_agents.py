"""Agents that are not ours, trained: `python tests/benchmarks/bench_agents.py` (`make bench-agents`).

Two steps of the demo through verl for each: mini-swe-agent in the worker, and an agent of a dozen lines of node inside
the sandbox, which finds its policy on its own loopback. Then every token of every rollout is audited. Writes a table to
docs/benchmarks.md; exit code 1 if a rollout failed, a token is not proved or a step trained nothing.
"""

import math
import shutil
import sys
import tempfile
from pathlib import Path

from page import machine, write_section
from verl_run import Run, left_over

from swe_plugin.cli.metrics import CORRELATION, REWARD, STEP_S, read_steps
from swe_plugin.trajectories.audit import audit_run
from swe_plugin.verl_adapter.demo_model import default_cache

STEPS = 2
WORDS = (
    "data.train_batch_size=4",
    "actor_rollout_ref.rollout.n=4",
    f"trainer.total_training_steps={STEPS}",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
)
AGENTS = Path(__file__).parents[1] / "scaffolds" / "agents"
MINI = (
    "swe.scaffold.name=mini_swe_agent",
    f"+swe.scaffold.options.config={AGENTS / 'mini_demo.yaml'}",
    "+swe.scaffold.options.model_class=litellm_textbased",
)
NODE = (
    "swe.scaffold.name=command",
    "+swe.scaffold.options.command='/tmp/node /tmp/agent.js'",
    f"+swe.scaffold.options.upload={{/tmp/node: {shutil.which('node')}, /tmp/agent.js: {AGENTS / 'agent.js'}}}",
)
COLUMNS = ("agent", "step", "rollouts failed", "rows", "sampled a rollout", "context", "reward", "correlation", "s")


def sound(values: dict[str, float]) -> bool:
    """Whether a step is as it has to be."""
    trained = values["swe/tokens/sampled/mean"] > 0 and math.isfinite(values["actor/grad_norm"])
    whole = values["swe/failed_total"] == 0 and values["swe/rows/real_total"] > 0
    return trained and whole and values[CORRELATION] >= 0.99 and 0 <= values[REWARD] <= 1


def play(home: Path, agent: str, words: tuple[str, ...]) -> tuple[list[str], bool]:
    """Lines of the table for one run, and whether all of it is sound."""
    run = Run(home, agent, *WORDS, *words)
    try:
        code = run.process.wait(900)
    finally:
        run.end()
    assert code == 0, run.log.read_text(errors="replace")[-4000:]
    lines, steps = [], [step for step in read_steps(run.directory) if step.trained]
    for step in steps:
        values = step.values
        counts = [f"{values[key]:.0f}" for key in ("swe/failed_total", "swe/rows/real_total")]
        means = [f"{values[key]:.2f}" for key in ("swe/tokens/sampled/mean", "swe/tokens/context/mean", REWARD)]
        cells = [agent, str(step.number), *counts, *means, f"{values[CORRELATION]:.5f}", f"{values[STEP_S]:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    audit = audit_run(run.directory)
    left = left_over(run, home)
    print(*lines, f"{agent}: {audit.findings or 'audit clean'}; {left} left", sep="\n", flush=True)
    lines.append(
        f"| {agent} | audit | {audit.n_audited} rollouts, {audit.n_trainable} trained ids, {len(audit.findings)} "
        f"findings; left: {left} | | | | | | |"
    )
    fine = len(steps) == STEPS and all(sound(step.values) for step in steps)
    return lines, fine and audit.ok and audit.n_trainable > 0


def main() -> int:
    """Exit code: 1 if anything is not as it has to be."""
    home = Path(tempfile.mkdtemp(prefix="swe-agents-"))
    (home / "demo").symlink_to(default_cache() / "demo")
    lines = [f"`make bench-agents` ({machine()}):", "", f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    fine = True
    try:
        for agent, words in (("mini-swe-agent", MINI), ("node inside", NODE)):
            found, sane = play(home, agent, words)
            lines += found
            fine = fine and sane
    finally:
        shutil.rmtree(home, ignore_errors=True)
    write_section("agents", "\n".join(lines))
    return int(not fine)


if __name__ == "__main__":
    sys.exit(main())
