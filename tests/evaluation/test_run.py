"""Many rollouts: bounded, drained, stopped, and what becomes of failures."""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import contextmanager

import pytest
from grading.local import LocalEnvironment
from rollout.workers import FIX, HARMLESS, SUBMIT, TASK, Environments, worker

from swe_plugin.errors import PolicyError, TooManyFailures
from swe_plugin.evaluation.results import Results
from swe_plugin.evaluation.run import Evaluation
from swe_plugin.evaluation.samples import Sample, plan
from swe_plugin.policies.scripted import ScriptedPolicy
from swe_plugin.rollout.breaker import CircuitBreaker
from swe_plugin.types import StopReason

pytestmark = pytest.mark.slow

TASKS = [dataclasses.replace(TASK, instance_id=f"calc-{n}") for n in range(4)]
GOOD = "--- a/calc.sh\n+++ b/calc.sh\n@@ -1 +1 @@\n-add() { echo $(($1 - $2)); }\n+add() { echo $(($1 + $2)); }\n"


@contextmanager
def evaluation(
    directory, policy, *, concurrency=2, breaker=99, factory=LocalEnvironment, trajectories=True, **settings
):
    made = worker(factory, directory, **settings)
    with Results.opened(directory) as results:
        yield Evaluation(made, results, policy, "scripted", concurrency, CircuitBreaker(breaker))


def solves(*names):
    return lambda sample: lambda: ScriptedPolicy([FIX if sample.task.instance_id in names else HARMLESS, SUBMIT])


async def test_each_sample_has_a_verdict_and_a_record(tmp_path):
    samples = plan(TASKS, 2)
    with evaluation(tmp_path, solves("calc-1", "calc-2")) as ran:
        await ran.run(samples)
        found = [ran.results.of(sample) for sample in samples]
    assert [result.resolved for result in found] == [False, True, True, False] * 2
    assert [result.reward for result in found] == [0.0, 1.0, 1.0, 0.0] * 2
    assert {result.model for result in found} == {"scripted"}
    assert ran.ended == 8
    for result in found:
        assert (tmp_path / result.record / "trajectory.json").exists()
        assert (tmp_path / result.record / "patch.diff").read_text() == result.patch
    assert len({result.record for result in found}) == 8


async def test_no_more_than_asked_for_run_at_once(tmp_path):
    running, most = 0, 0

    class Slow(ScriptedPolicy):
        async def respond(self, messages, *, tools=()):
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.02)
            running -= 1
            return await super().respond(messages, tools=tools)

    with evaluation(tmp_path, lambda sample: lambda: Slow([SUBMIT]), concurrency=3) as ran:
        await ran.run(plan(TASKS, 3))
    assert (most, running, ran.ended) == (3, 0, 12)


async def test_a_drain_ends_what_runs_and_begins_nothing(tmp_path):
    samples = plan(TASKS, 1)

    class Draining(ScriptedPolicy):
        async def respond(self, messages, *, tools=()):
            ran.drain()
            return await super().respond(messages, tools=tools)

    with evaluation(tmp_path, lambda sample: lambda: Draining([FIX, SUBMIT]), concurrency=1) as ran:
        await ran.run(samples)
        assert [ran.results.of(sample) is not None for sample in samples] == [True, False, False, False]
        assert ran.results.of(samples[0]).resolved
    with evaluation(tmp_path, solves(*(task.instance_id for task in TASKS))) as again:
        await again.run(again.results.missing(samples))
        assert (again.ended, all(again.results.of(sample).resolved for sample in samples)) == (3, True)


async def test_a_cancelled_evaluation_leaves_no_environment(tmp_path):
    class Forever(ScriptedPolicy):
        async def respond(self, messages, *, tools=()):
            await asyncio.Event().wait()

    environments = Environments()
    with evaluation(tmp_path, lambda sample: lambda: Forever([]), factory=environments) as ran:
        running = asyncio.ensure_future(ran.run(plan(TASKS, 1)))
        while ran.worker.pool.in_use < 2:
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (ran.worker.pool.in_use, ran.running, ran.ended) == (0, 0, 0)
        assert ran.results.missing(plan(TASKS, 1)) == plan(TASKS, 1)
    assert len(environments.agents) == 2
    assert all(environment.top is None for environment in environments.agents)


async def test_a_failure_is_no_verdict_and_is_tried_again_by_the_next_run(tmp_path):
    samples = plan(TASKS[:2], 1)
    with evaluation(tmp_path, solves("calc-0"), factory=Environments(dies=2), concurrency=1) as ran:
        await ran.run(samples)
        first, second = (ran.results.of(sample) for sample in samples)
    assert (first.resolved, first.reward, first.failed, first.stop) == (None, None, True, StopReason.ENVIRONMENT_LOST)
    assert "the supervisor is gone" in first.error
    assert (second.resolved, second.failed) == (False, False)
    with evaluation(tmp_path, solves("calc-0")) as again:
        assert again.results.missing(samples) == samples[:1]
        await again.run(samples[:1])
        assert again.results.of(samples[0]).resolved


async def test_a_dead_server_does_not_eat_the_dataset(tmp_path):
    policy = lambda sample: lambda: ScriptedPolicy([PolicyError("refused")])  # noqa: E731
    with evaluation(tmp_path, policy, breaker=3, concurrency=1, failure__max_attempts=1) as ran:
        with pytest.raises(TooManyFailures, match=r"3 rollouts failed in a row.*refused"):
            await ran.run(plan(TASKS, 5))
        assert (ran.ended, ran.worker.pool.in_use) == (3, 0)


async def test_what_a_recipe_makes_worthless_is_not_resolved(tmp_path):
    policy = lambda sample: lambda: ScriptedPolicy(["```bash\ngit log --all\n```", FIX, SUBMIT])  # noqa: E731
    with evaluation(tmp_path, policy, grading__honesty={"history_read": "zero"}) as ran:
        await ran.run(plan(TASKS[:1], 1))
        found = ran.results.of(plan(TASKS[:1], 1)[0])
    assert (found.resolved, found.reward, found.failed) == (False, 0.0, False)


async def test_without_records_there_are_results_all_the_same(tmp_path):
    with evaluation(tmp_path, solves("calc-0"), output__trajectories=False) as ran:
        await ran.run(plan(TASKS[:1], 1))
        found = ran.results.of(plan(TASKS[:1], 1)[0])
    assert (found.resolved, found.record, (tmp_path / "step_0").exists()) == (True, "", False)


@pytest.mark.parametrize(
    ("patch", "resolved", "flags"),
    [
        (GOOD, True, ()),
        (GOOD.replace("+ $2", "* $2"), False, ()),
        ("", False, ("empty_patch",)),
        (GOOD.replace("- $2", "% $2"), False, ("patch_not_applied",)),
        ("what is this?\n", False, ("patch_not_applied",)),
        (GOOD + "#" * 5000, False, ("patch_too_large",)),
    ],
)
async def test_a_patch_of_somebody_else_is_graded_without_an_agent(tmp_path, patch, resolved, flags):
    environments, sample = Environments(), Sample(TASKS[0], 0, patch, "theirs")
    with evaluation(tmp_path, solves(), factory=environments, grading__max_patch_bytes=4000) as ran:
        await ran.run([sample])
        found = ran.results.of(sample)
    assert (found.resolved, found.flags, found.model) == (resolved, flags, "theirs")
    assert (found.failed, found.turns, environments.agents) == (False, 0, [])


async def test_a_grader_that_cannot_start_is_no_verdict_on_a_prediction(tmp_path):
    sample = Sample(TASKS[0], 0, GOOD, "theirs")
    with evaluation(tmp_path, solves(), factory=Environments(bad_grading_starts=9)) as ran:
        await ran.run([sample])
        found = ran.results.of(sample)
    assert (found.resolved, found.failed, found.stop) == (None, True, StopReason.GRADER_ERROR)
    assert found.patch == GOOD
