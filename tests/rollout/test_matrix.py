"""The failure matrix, row by row: what is retried, what is graded, what becomes a row."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter

import pytest
from grading.local import LocalEnvironment

from rollout.workers import FIX, HARMLESS, SUBMIT, TASK, Environments, answers, play, with_grading, worker
from swe_plugin.environments.dummy import DummyEnvironment
from swe_plugin.errors import ContextOverflow, EnvironmentUnavailable, PolicyError, RolloutCancelled
from swe_plugin.policies.scripted import ScriptedPolicy
from swe_plugin.rollout.outcome import MATRIX, Retry, Row, outcome, stop_for
from swe_plugin.scaffolds.base import Scaffold
from swe_plugin.types import Message, Reply, StopReason, TestStatus


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = LocalEnvironment.live
    yield
    assert LocalEnvironment.live == before


class Ends(Scaffold):
    """Ends as told after one command."""

    def __init__(self, end: StopReason | Exception) -> None:
        self.end = end

    async def run(self, task, environment, policy, episode):
        await environment.shell("sed -i 's/- /+ /' calc.sh")
        if isinstance(self.end, Exception):
            raise self.end
        return self.end


def test_every_stop_reason_has_a_row():
    assert set(MATRIX) == set(StopReason)
    for stop in StopReason:
        assert outcome(stop).grade == (outcome(stop).row is not Row.NONE)


async def test_submitted_work_is_graded_and_trained():
    good, bad = await play(worker(), FIX, SUBMIT), await play(worker(), HARMLESS, SUBMIT)
    assert [(r.stop, r.reward, r.failures) for r in (good, bad)] == [
        (StopReason.SUBMITTED, 1.0, []),
        (StopReason.SUBMITTED, 0.0, []),
    ]
    assert bad.grade.statuses == {"two": TestStatus.FAILED}


async def test_stopped_is_graded_like_submitted():
    made = worker()
    made.scaffold = Ends(StopReason.STOPPED)
    result = await play(made)
    assert (result.stop, result.reward) == (StopReason.STOPPED, 1.0)


@pytest.mark.parametrize(
    ("stop", "script", "settings"),
    [
        (StopReason.MAX_TURNS, [FIX], {"scaffold__max_turns": 1}),
        (StopReason.CONTEXT_FULL, [FIX, ContextOverflow("full")], {}),
        (StopReason.FORMAT_ERRORS, [FIX, "?"], {"scaffold__max_format_errors": 1}),
        (
            StopReason.WALL_CLOCK,
            [FIX, "```bash\nsleep 60\n```"],
            {"scaffold__wall_clock_s": 1.5, "scaffold__command_timeout_s": 1.5},
        ),
    ],
)
async def test_partial_work_is_graded(stop, script, settings):
    environments = Environments()
    result = await play(worker(environments, **settings), *script)
    assert (result.stop, result.reward, result.failures) == (stop, 1.0, [])
    assert len(environments.agents) == 1
    assert result.turns[0].actions == ["sed -i 's/- /+ /' calc.sh"]


async def test_a_context_that_overflows_under_another_scaffold_is_graded_too():
    made = worker()
    made.scaffold = Ends(ContextOverflow("full"))
    result = await play(made)
    assert (result.stop, result.reward) == (StopReason.CONTEXT_FULL, 1.0)


async def test_a_model_that_never_answers_is_ended_by_the_clock():
    made = worker(scaffold__wall_clock_s=0.3, scaffold__command_timeout_s=0.3)

    class Hangs(ScriptedPolicy):
        async def respond(self, messages, *, tools=()):
            await asyncio.Event().wait()

    result = await made.run(TASK, 0, lambda: Hangs([]), step=0, phase="val")
    assert (result.stop, result.reward, result.flags) == (StopReason.WALL_CLOCK, 0.0, ("empty_patch",))
    assert result.timings["generate"] >= 0.25


async def test_a_clock_that_runs_out_over_a_dead_environment_says_nothing_of_the_agent():
    environments = Environments()

    class Waits(ScriptedPolicy):
        async def respond(self, messages, *, tools=()):
            environments.agents[-1].dead = True
            await asyncio.Event().wait()

    made = worker(environments, scaffold__wall_clock_s=0.3, scaffold__command_timeout_s=0.3, failure__max_attempts=1)
    result = await made.run(TASK, 0, lambda: Waits([]), step=0, phase="train")
    assert (result.stop, result.reward) == (StopReason.ENVIRONMENT_LOST, None)
    assert result.failures[0].phase == "agent"  # before anybody asks it for a patch


async def test_a_set_up_that_takes_too_long_is_a_failed_start():
    environments = Environments()
    made = worker(environments, environment__setup_timeout_s=1e-3, failure__max_attempts=1)
    result = await play(made, FIX)
    assert (result.stop, result.reward) == (StopReason.ENVIRONMENT_START, None)
    assert result.failures[0].phase == "setup"
    assert "within 0.001 s" in result.failures[0].error


async def test_a_grading_that_hangs_outside_its_tests_is_no_zero(monkeypatch):
    made = worker(grading__overhead_s=0.1)

    async def hangs(*_):
        await asyncio.Event().wait()

    monkeypatch.setattr(made.judge.grader, "grade", hangs)
    result = await play(made, FIX, SUBMIT, task=with_grading(timeout_s=0.1))
    assert (result.stop, result.reward, result.flags) == (StopReason.GRADER_ERROR, None, ("grader_timeout",))
    assert "swe.grading.overhead_s" in result.failures[0].error


@pytest.mark.parametrize("where", ["start", "grade"])
async def test_a_rollout_that_takes_too_long_in_all_has_no_row(where, monkeypatch):
    limits = {"failure__rollout_timeout_s": 2.0, "scaffold__wall_clock_s": 2.0, "scaffold__command_timeout_s": 2.0}
    made = worker(DummyEnvironment, **limits)

    async def hangs(*_, **__):
        await asyncio.Event().wait()

    if where == "start":
        monkeypatch.setattr(DummyEnvironment, "start", hangs)
    else:
        monkeypatch.setattr(made.judge, "judge", hangs)
    result = await play(made, FIX, SUBMIT)
    assert (result.stop, result.reward, result.grade) == (StopReason.ROLLOUT_TIMEOUT, None, None)
    assert (result.failures[-1].phase, result.failures[-1].stop) == (where, StopReason.ROLLOUT_TIMEOUT)
    assert len(result.turns) == (2 if where == "grade" else 0)


async def test_a_failure_says_whose_it_is_where_and_why():
    result = await play(worker(Environments(bad_starts=9), failure__max_attempts=2), FIX)
    assert [failure.attempt for failure in result.failures] == [1, 2]
    assert {(failure.rollout, failure.node) for failure in result.failures} == {("calc-1@0", socket.gethostname())}
    text = f"calc-1@0 on {socket.gethostname()}: attempt 2, start: EnvironmentStartError: no such image"
    assert str(result.failures[1]) == text


CASES = {
    StopReason.ENVIRONMENT_START: ("bad_starts", None),
    StopReason.ENVIRONMENT_LOST: ("dies", None),
    StopReason.MODEL_ERROR: (None, PolicyError("the server is down")),
}


@pytest.mark.parametrize("stop", CASES)
async def test_infrastructure_that_fails_once_is_retried_with_everything_fresh(stop):
    what, error = CASES[stop]
    environments = Environments(**({what: 1} if what else {}))
    policies = []

    def factory():
        policies.append(ScriptedPolicy([error] if error and not policies else [FIX, SUBMIT]))
        return policies[-1]

    result = await worker(environments).run(TASK, 0, factory, step=1, phase="train")
    assert (result.stop, result.reward) == (StopReason.SUBMITTED, 1.0)
    assert [failure.attempt for failure in result.failures] == [1]
    assert "Traceback" in result.failures[0].traceback
    assert len(environments.agents) == 2
    assert all(len(policy.calls) <= 2 for policy in policies)
    assert len(result.turns) == 2  # of the second attempt only


@pytest.mark.parametrize("stop", CASES)
async def test_infrastructure_that_keeps_failing_yields_no_row(stop):
    what, error = CASES[stop]
    environments = Environments(**({what: 9} if what else {}))
    result = await play(worker(environments, failure__max_attempts=3), error or FIX)
    assert (result.stop, result.reward, result.grade) == (stop, None, None)
    assert [failure.attempt for failure in result.failures] == [1, 2, 3]
    assert {failure.phase for failure in result.failures} == {"start" if what == "bad_starts" else "agent"}
    assert len(environments.agents) == 3
    assert environments.graders == []


async def test_no_retry_once_the_weights_have_changed():
    environments = Environments(dies=1)
    result = await play(worker(environments), FIX, may_retry=lambda: False)
    assert (result.stop, result.reward) == (StopReason.ENVIRONMENT_LOST, None)
    assert len(environments.agents) == 1


async def test_an_environment_that_dies_while_the_patch_is_read_is_lost():
    environments = Environments()

    def dies_then_submits():
        def answer(messages):
            environments.agents[-1].dead = len(environments.agents) == 1
            return SUBMIT

        return ScriptedPolicy(answer)

    result = await worker(environments).run(TASK, 0, dies_then_submits, step=1, phase="train")
    assert (result.stop, result.failures[0].phase) == (StopReason.SUBMITTED, "patch")
    assert len(environments.agents) == 2


async def test_a_grader_that_fails_once_is_retried_alone():
    environments = Environments(bad_grading_starts=1)
    result = await play(worker(environments), FIX, SUBMIT)
    assert (result.stop, result.reward) == (StopReason.SUBMITTED, 1.0)
    assert [(failure.phase, failure.attempt) for failure in result.failures] == [("grade", 1)]
    assert (len(environments.agents), len(environments.graders)) == (1, 2)


@pytest.mark.parametrize(
    ("grading", "flag"),
    [
        ({"timeout_s": 0.2, "tests": {"hidden.sh": "sleep 60"}}, "grader_timeout"),
        ({"command": ("bash", "-c", "exec no-such-program")}, "grader_error"),
    ],
)
async def test_a_task_that_cannot_be_graded_is_no_zero(grading, flag):
    environments = Environments()
    result = await play(worker(environments), FIX, SUBMIT, task=with_grading(**grading))
    assert (result.stop, result.reward, result.grade) == (StopReason.GRADER_ERROR, None, None)
    assert result.flags == (flag,)
    phases = [(failure.phase, failure.attempt) for failure in result.failures]
    assert phases == [("grade", 1), ("control", 1), ("grade", 2)]
    assert (len(environments.agents), len(environments.graders)) == (1, 3)
    assert result.patch  # what the agent did is kept


@pytest.mark.parametrize("end", [KeyError("bug"), TimeoutError("a plugin's own"), AssertionError("stream")])
async def test_a_bug_in_a_scaffold_is_not_retried_and_no_row(end):
    environments = Environments()
    made = worker(environments)
    made.scaffold = Ends(end)
    result = await play(made)
    assert (result.stop, result.reward) == (StopReason.SCAFFOLD_ERROR, None)
    assert type(end).__name__ in result.failures[0].error
    assert "raise self.end" in result.failures[0].traceback
    assert len(environments.agents) == 1


async def test_a_cancelled_rollout_is_not_retried_and_no_row():
    environments = Environments()
    result = await play(worker(environments), FIX, RolloutCancelled("stale"))
    assert (result.stop, result.reward) == (StopReason.CANCELLED, None)
    assert len(environments.agents) == 1


def test_every_error_has_its_stop_reason():
    assert stop_for(EnvironmentUnavailable()) is StopReason.ENVIRONMENT_LOST
    assert stop_for(ConnectionError()) is StopReason.SCAFFOLD_ERROR
    counted = Counter(line.retry for line in MATRIX.values())
    assert counted == {Retry.NONE: 10, Retry.FRESH: 3, Retry.GRADE: 1}


async def test_an_empty_patch_is_zero_with_a_flag_and_costs_no_environment():
    environments = Environments()
    result = await play(worker(environments), SUBMIT)
    assert (result.reward, result.flags, result.patch) == (0.0, ("empty_patch",), "")
    assert environments.graders == []


async def test_a_patch_above_the_limit_is_zero_with_a_flag():
    made = worker(grading__max_patch_bytes=1000)
    result = await play(made, "```bash\nhead -c 5000 /dev/urandom > blob\n```", SUBMIT)
    assert (result.stop, result.reward, result.flags) == (StopReason.SUBMITTED, 0.0, ("patch_too_large",))


KILL = "```bash\necho 'kill -9 $$' > calc.sh\n```"


async def test_a_patch_that_kills_its_tests_is_zero_with_a_flag_unless_the_recipe_drops_it():
    result = await play(worker(), KILL, SUBMIT)
    assert (result.stop, result.reward, result.flags) == (StopReason.SUBMITTED, 0.0, ("tests_aborted",))
    dropped = await play(worker(grading__honesty={"tests_aborted": "drop"}), KILL, SUBMIT)
    assert (dropped.stop, dropped.reward) == (StopReason.DISHONEST, None)
    assert dropped.grade is not None


CHEAT = "```bash\nsed -i 's/- /+ /' calc.sh; git reflog; echo 'x = 1' > conftest.py\n```"
SEEN = ("tests_edited", "test_configuration", "history_read")


@pytest.mark.parametrize(
    ("policy", "stop", "reward", "flags"),
    [
        ("ignore", StopReason.SUBMITTED, 1.0, SEEN[:2]),
        ("flag", StopReason.SUBMITTED, 1.0, SEEN),
        ("zero", StopReason.SUBMITTED, 0.0, SEEN),
        ("drop", StopReason.DISHONEST, None, SEEN),
    ],
)
async def test_what_follows_from_a_signal_is_the_recipes_choice(policy, stop, reward, flags):
    made = worker(grading__honesty={"history_read": policy})
    result = await play(made, CHEAT, SUBMIT)
    assert (result.stop, result.reward, set(result.flags)) == (stop, reward, set(flags))
    assert result.grade.resolved
    assert result.rewards == ({} if reward is None else {"resolved": 1.0})


async def test_components_add_up_to_the_reward_and_are_kept():
    made = worker(grading__rewards={"resolved": 1.0, "turns": {"weight": -0.25, "over": 1}, "f2p": 0.0})
    result = await play(made, FIX, SUBMIT)
    assert (result.reward, result.rewards) == (0.75, {"resolved": 1.0, "turns": 1.0, "f2p": 1.0})


async def test_a_component_that_fails_leaves_no_row():
    made = worker(grading__rewards={"resolved": 1.0, "own": {"weight": 1, "use": "math:sqrt"}})
    result = await play(made, FIX, SUBMIT)
    assert (result.stop, result.reward) == (StopReason.GRADER_ERROR, None)
    assert "swe.grading.rewards.own failed: TypeError" in result.failures[0].error


async def test_a_cut_answer_does_not_count_as_an_action():
    cut = Reply(Message("assistant", FIX), truncated=True)
    result = await play(worker(scaffold__max_format_errors=1), cut)
    assert (result.stop, result.reward, result.n_format_errors) == (StopReason.FORMAT_ERRORS, 0.0, 1)


async def test_the_same_rules_hold_in_validation():
    environments = Environments(bad_starts=9)
    result = await worker(environments).run(TASK, 0, answers(FIX), step=1, phase="val")
    assert (result.stop, result.reward) == (StopReason.ENVIRONMENT_START, None)
