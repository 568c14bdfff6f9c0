"""``docs/failures.md``, made from the failure matrix.

Write it with ``python -m swe_plugin.rollout.failures_doc > docs/failures.md``; a test compares the two.
"""

from __future__ import annotations

import sys

from swe_plugin.rollout.outcome import MATRIX

__all__ = ["failures_markdown"]

_TEXT = """\
# What happens when something fails

<!-- Made by `python -m swe_plugin.rollout.failures_doc > docs/failures.md`; edit that module instead. -->

A rollout that fails is data, never a crash: `RolloutWorker.run` returns a result whatever happens. The table is
`swe_plugin.rollout.outcome.MATRIX`; training and validation use the same one.

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

**Where to look.** Each failed attempt is kept in the rollout's directory with its traceback: `failure_<n>.txt`, and
`failures` in `trajectory.json`.
"""


def failures_markdown() -> str:
    """The whole page."""
    lines = ["| stop reason | meaning | retry | grade | row |", "|---|---|---|---|---|"]
    for stop, line in MATRIX.items():
        graded = "yes" if line.grade else "-"
        lines.append(f"| `{stop}` | {line.meaning} | {line.retry} | {graded} | {line.row} |")
    return _TEXT.format(table="\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.stdout.write(failures_markdown())
