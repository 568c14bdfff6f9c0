"""A patch cannot escape its grade, and a machine's trouble is no grade."""

from __future__ import annotations

import dataclasses

import pytest
from rollout.workers import TASK, Environments, worker

from grading.local import LocalEnvironment
from swe_plugin.errors import EnvironmentUnavailable, GraderError, GraderTimeout, GradingAborted
from swe_plugin.types import Grade, TestStatus

FAST = dataclasses.replace(TASK, grading=dataclasses.replace(TASK.grading, timeout_s=6.0))
GOLD = "diff --git a/calc.sh b/calc.sh\n--- a/calc.sh\n+++ b/calc.sh\n@@ -1 +1 @@\n-{old}\n+{new}\n".format(
    old="add() { echo $(($1 - $2)); }", new="add() { echo $(($1 + $2)); }"
)
LOOP = GOLD.replace("+add() { echo $(($1 + $2)); }", "+while :; do :; done")
KILLED = GOLD.replace("+add() { echo $(($1 + $2)); }", "+kill -9 $$")
NOT_FOUND = GOLD.replace("+add() { echo $(($1 + $2)); }", "+exit 127")


def judge(environments=LocalEnvironment, **settings):
    return worker(environments, **{f"grading__{key}": value for key, value in settings.items()}).judge


async def verdict(patch, task=FAST, **settings):
    environments = Environments()
    return await judge(environments, **settings).judge(task, patch), environments


@pytest.mark.slow
@pytest.mark.parametrize("patch", [LOOP, KILLED, NOT_FOUND], ids=["loop", "killed", "not found"])
@pytest.mark.parametrize("gold", [GOLD, ""], ids=["gold", "no gold"])
async def test_a_patch_that_keeps_its_tests_from_ending_is_not_resolved(patch, gold):
    task = dataclasses.replace(FAST if patch == LOOP else TASK, gold_patch=gold)
    found, environments = await verdict(patch, task)
    assert found.grade is not None
    assert (found.grade.resolved, found.flags) == (False, ("tests_aborted",))
    assert [(failure.phase, failure.attempt) for failure in found.failures] == [("grade", 1), ("grade", 2)]
    assert len(environments.graders) == 3  # the patch, the control, the patch


async def test_one_attempt_is_followed_by_a_control_and_another():
    found, environments = await verdict(KILLED, TASK, max_attempts=1)
    assert (found.flags, len(environments.graders)) == (("tests_aborted",), 3)


async def test_such_a_grade_is_kept_like_any_other():
    environments = Environments()
    made = judge(environments)
    first, second = [await made.judge(TASK, KILLED) for _ in range(2)]
    assert (first.flags, second.flags) == (("tests_aborted",), ("tests_aborted",))
    assert second.grade.cached
    assert len(environments.graders) == 3


def told(script, monkeypatch, **settings):
    made = judge(**settings)
    asked = []

    async def grade(task, patch, environment):
        asked.append(patch)
        said = script[len(asked) - 1]
        if isinstance(said, Exception):
            raise said
        return said

    monkeypatch.setattr(made.grader, "grade", grade)
    return made, asked


GOOD = Grade(True, {"two": TestStatus.PASSED}, duration_s=1.0)
BAD = Grade(False, {"two": TestStatus.FAILED}, duration_s=1.0)
SLOW = dataclasses.replace(GOOD, duration_s=3.1)
LATE, FULL, GONE = GraderTimeout("late"), GradingAborted("killed"), EnvironmentUnavailable("gone")
WITH_GOLD = dataclasses.replace(FAST, gold_patch="gold")


@pytest.mark.parametrize(
    ("script", "flags"),
    [
        ([LATE, GOOD, LATE], ("tests_aborted",)),
        ([FULL, GOOD, LATE], ("tests_aborted",)),
        ([GONE, GOOD, GONE], ("tests_aborted",)),
        ([LATE, GOOD, GOOD], ()),  # it was the machine: the last attempt tells
        ([LATE, GOOD, BAD], ()),
        ([LATE, LATE, LATE], ("grader_timeout",)),  # the control does not end either
        ([LATE, SLOW, LATE], ("grader_timeout",)),  # it ends, but the machine is too slow to say
        ([LATE, BAD, LATE], ("grader_timeout",)),  # the reference fix fails: the task is broken
        ([LATE, GONE, GOOD], ()),
        ([GraderError("bug"), LATE], ("grader_timeout",)),  # not limits alone
        ([LATE, GOOD, GraderError("bug")], ("grader_error",)),
        ([GraderError("bug"), GraderError("bug")], ("grader_error",)),
    ],
)
async def test_only_a_healthy_control_between_two_failures_blames_the_patch(script, flags, monkeypatch):
    made, asked = told(script, monkeypatch)
    found = await made.judge(WITH_GOLD, "patch")
    assert found.flags == flags
    assert (found.grade is None) == (flags in (("grader_timeout",), ("grader_error",)))
    assert len(asked) == len(script)
    assert asked == ["patch", "gold", "patch"][: len(script)] or len(script) == 2


async def test_without_a_reference_fix_a_control_has_to_run_any_test(monkeypatch):
    nothing = Grade(False, {"two": TestStatus.MISSING})
    made, asked = told([LATE, nothing, LATE], monkeypatch)
    assert (await made.judge(FAST, "patch")).flags == ("grader_timeout",)
    assert asked == ["patch", "", "patch"]
