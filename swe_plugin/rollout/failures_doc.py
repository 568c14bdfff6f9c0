"""``docs/failures.md``, made from the failure matrix; `swe_plugin.cli.docs` writes and checks it."""

from __future__ import annotations

from swe_plugin.rollout.outcome import MATRIX

__all__ = ["BUDGETS", "failures_markdown"]

BUDGETS = {
    "image": ("swe.environment.image_timeout_s", "`environment_start`"),
    "start": ("swe.environment.start_timeout_s", "`environment_start`"),
    "set-up": ("swe.environment.setup_timeout_s", "`environment_start`"),
    "one answer": ("swe.policy.call_timeout_s", "`model_error`"),
    "one command": ("swe.scaffold.command_timeout_s", "an observation: the agent sees that it took too long"),
    "agent": ("swe.scaffold.wall_clock_s", "`wall_clock`"),
    "grading": ("swe.grading.overhead_s", "`grader_error`; it comes on top of the task's own limit for its tests"),
    "whole rollout": ("swe.failure.rollout_timeout_s", "`rollout_timeout`"),
}
"""Phase -> the key of its limit in seconds, and what follows when it is over."""

_TEXT = """\
# What happens when something fails

A rollout that fails is data, never a crash: `RolloutWorker.run` returns a result whatever happens. The table is
`swe_plugin.rollout.outcome.MATRIX`; training, validation and `swe-plugin eval` use the same one.

{table}
**A failure of infrastructure is never a reward.** A member of a group that has no row is left out: the group's mean
and spread are those of the members that are there. With fewer than `swe.failure.min_survivors` of them the whole group
is dropped. A masked row would not do, because it would still count in the group's statistics.

**Retries.** *Fresh* means a new environment and a new policy, at most `swe.failure.max_attempts` attempts in all, with
a pause that doubles, and none once the weights have changed. *Grade only* keeps the agent's patch and grades it
again in another environment, at most `swe.grading.max_attempts` times. If limits ended every attempt, the last one
follows a control run without the patch, so that a patch cannot escape its grade
([decision](decisions/grader_timeouts.md)). What the agent did itself (a command that
fails or takes too long) is no failure: it is an observation.

**Time.** Every phase has a limit of its own, in seconds; an outer one that is smaller than an inner one is refused.

{budgets}
**Groups without an advantage.** Where all members of a group have the same reward, none has an advantage, and its rows
only thin out the update. `swe.failure.zero_advantage` says what happens to them: `keep` (they stay), `drop` (their rows
are left out, the step is smaller; a batch of nothing else stays whole), `refill` (verl's own filter replaces the groups
by those of other prompts before the update, for as long as that takes). `swe/groups/zero_advantage` counts them. With
estimators that do not compare members (PPO) only `keep` is possible.

**Graded work.** Whatever ends the agent, its work up to then is read as a patch against the baseline that was recorded
before it started, and judged in an environment that it has never touched.

| flag | meaning | reward |
|---|---|---|
| `empty_patch` | nothing was changed | 0 |
| `patch_too_large` | more than `swe.grading.max_patch_bytes` | 0 |
| `patch_unreadable` | the agent's work cannot be read (it left no room, or no git), that of a control can | 0 |
| `patch_incomplete` | some file could not be read as a change and is left out | by the tests |
| `patch_not_applied` | a patch that was made elsewhere (`swe-plugin eval --predictions`) does not apply | 0 |
| `tests_edited` | tests or their configuration were changed; those changes are left out | by the tests |
| `tests_aborted` | the patch keeps its tests from ending (time, memory, disk, output); a control run ended | 0 |
| `grader_timeout` | the tests did not end in time, and a control run did not either | no row |
| `grader_error` | the patch could not be graded | no row |

Further flags are signals of reward hacking ([rewards.md](rewards.md)).

**Where to look.** Each failed attempt is kept in the rollout's directory with its rollout, node, attempt, phase and
traceback: `failure_<n>.txt`, and `failures` in `trajectory.json`. The log has one line of each.
"""


def failures_markdown() -> str:
    """The whole page."""
    lines = ["| stop reason | meaning | retry | grade | row |", "|---|---|---|---|---|"]
    for stop, line in MATRIX.items():
        graded = "yes" if line.grade else "-"
        lines.append(f"| `{stop}` | {line.meaning} | {line.retry} | {graded} | {line.row} |")
    budgets = ["| phase | limit | what follows |", "|---|---|---|"]
    budgets += [f"| {phase} | `{key}` | {follows} |" for phase, (key, follows) in BUDGETS.items()]
    return _TEXT.format(table="\n".join(lines) + "\n", budgets="\n".join(budgets) + "\n")
