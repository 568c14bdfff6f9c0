"""Thousands of rollouts under random faults of every kind: each is accounted for, and nothing is left."""

import asyncio
import dataclasses
import random
from collections import Counter

import pytest
from rollout.workers import TASK

from swe_plugin.config import load_config
from swe_plugin.environments import EnvironmentSpec
from swe_plugin.environments.dummy import DummyEnvironment
from swe_plugin.errors import ConfigError, EnvironmentUnavailable
from swe_plugin.grading.base import Grader
from swe_plugin.grading.honesty import Honesty
from swe_plugin.grading.judge import Judge
from swe_plugin.grading.rewards import Rewards
from swe_plugin.plugins import load_plugins
from swe_plugin.policies.scripted import ScriptedPolicy
from swe_plugin.rollout.assessor import Assessor
from swe_plugin.rollout.build import build_rollout_worker
from swe_plugin.rollout.outcome import Row, outcome
from swe_plugin.testing import Fault, Faults, FaultyEnvironment, FaultyPolicy
from swe_plugin.types import Grade, Image, StopReason

ENVIRONMENT = [fault for fault in Fault if not fault.startswith("policy")]
RATES = {**dict.fromkeys(ENVIRONMENT, 0.04), **{f: 0.04 for f in Fault if f.startswith("policy")}}
CAUSES = {
    Fault.START_FAILS: StopReason.ENVIRONMENT_START,
    Fault.START_HANGS: StopReason.ENVIRONMENT_START,
    Fault.START_BUG: StopReason.ENVIRONMENT_START,
    Fault.COMMAND_DIES: StopReason.ENVIRONMENT_LOST,
    Fault.POLICY_FAILS: StopReason.MODEL_ERROR,
    Fault.POLICY_BUG: StopReason.SCAFFOLD_ERROR,
}


class FromPatch(Grader):
    """Right if the patch says so; uses its environment, so that a grading can fail."""

    async def grade(self, task, patch, environment):
        for _ in range(6):
            await environment.exec(["true"])
        return Grade(resolved="+right" in patch)

    def reward(self, task, grade):
        return float(grade.resolved)


def write(environment, script):
    if script.startswith("write "):
        environment.files[f"{environment.spec.image.workdir}/answer"] = f"{script.removeprefix('write ')}\n".encode()
        return "ok"
    return None


class Harness:
    """A worker on faulty dummies; remembers all that it made."""

    def __init__(self, seed, rates=RATES, **slots):
        self.faults, self.made = Faults(seed, rates), []
        config = load_config(
            {"environment": {"start_timeout_s": 0.05}, "slots": {"start": 16, "running": 64, "grading": 32, **slots}}
        )
        self.worker = build_rollout_worker(config, load_plugins(), None, factory=self.environment)
        grader = FromPatch()
        judge = Judge(grader, self.worker.pool, self.worker.spec, max_attempts=2, cache=None)
        self.worker.assessor = Assessor(judge, Rewards(config.grading.rewards, grader), Honesty(config.grading.honesty))
        self.worker.backoff_s = judge.backoff_s = 0.0

    def environment(self, spec):
        inside = DummyEnvironment(spec, handler=write)
        self.made.append(inside)
        return FaultyEnvironment(spec, inside=inside, faults=self.faults)

    async def rollout(self, number, session, *, right):
        task = dataclasses.replace(TASK, instance_id=f"t{number}")
        script = ["```bash\ntrue\n```", f"```bash\nwrite {'right' if right else 'wrong'}\n```", "```bash\nsubmit\n```"]

        def policy():
            return FaultyPolicy(ScriptedPolicy(script), self.faults, f"t{number}@{session}")

        return await self.worker.run(task, session, policy, step=1, phase="train")

    def assert_nothing_is_left(self):
        pool = self.worker.pool
        assert [inside.spec.label for inside in self.made if not inside.stopped] == []
        assert (pool.in_use, pool.parked, pool._start.free) == (0, 0, 16)
        assert {purpose: slots.free for purpose, slots in pool._use.items()} == {"running": 64, "grading": 32}


def assert_accounted_for(result, right):
    """What the failure matrix promises of one rollout."""
    line = outcome(result.stop)
    if result.reward is None:
        assert line.row is Row.NONE, result.stop
        assert result.failures
        assert any("injected" in failure.error or "not ready after" in failure.error for failure in result.failures)
        assert result.failures[-1].traceback
    else:
        assert line.row is not Row.NONE
        written = "write" in "".join(str(turn) for turn in result.turns)
        assert result.reward == float(right and written), (result.stop, result.patch)
        if result.stop is StopReason.SUBMITTED:
            assert written


@pytest.mark.parametrize(
    ("groups", "seed"), [(60, 1), (60, 2), pytest.param(1250, 3, marks=pytest.mark.slow)], ids=["240", "240", "5000"]
)
async def test_every_rollout_ends_once_failures_have_no_reward_and_nothing_is_left(groups, seed):
    harness, right = Harness(seed), random.Random(seed)
    asked = {(group, session): right.random() < 0.5 for group in range(groups) for session in range(4)}
    results = await asyncio.gather(*(harness.rollout(*key, right=good) for key, good in asked.items()))
    assert [(r.task.instance_id, r.session) for r in results] == [(f"t{g}", s) for g, s in asked]
    for result, good in zip(results, asked.values(), strict=True):
        assert_accounted_for(result, good)
    await harness.worker.close()
    harness.assert_nothing_is_left()
    assert set(harness.faults.drawn) == set(Fault)
    stops = Counter(result.stop for result in results)
    assert {StopReason.SUBMITTED, StopReason.CONTEXT_FULL, StopReason.SCAFFOLD_ERROR} <= set(stops)
    assert stops[StopReason.SUBMITTED] > len(results) / 2  # most failures are cured by the second attempt


async def test_steps_that_look_ahead_bear_the_same_faults():
    harness = Harness(5, running=64)
    for step in range(6):
        rollouts = [
            asyncio.ensure_future(harness.rollout(step * 10 + i, session, right=True))
            for i in range(10)
            for session in range(4)
        ]
        await asyncio.sleep(0)
        following = [dataclasses.replace(TASK, instance_id=f"t{(step + 1) * 10 + i}") for i in range(10)]
        harness.worker.prewarm((task, 4) for task in following)
        for result in await asyncio.gather(*rollouts):
            assert_accounted_for(result, right=True)
        await asyncio.sleep(0.02)
    await harness.worker.close()
    harness.assert_nothing_is_left()


@pytest.mark.parametrize("fault", CAUSES)
async def test_each_fault_ends_as_the_matrix_says_if_it_never_stops(fault, monkeypatch):
    monkeypatch.setattr(Faults, "place", lambda *_: 1)
    harness = Harness(0, {fault: 1.0})
    result = await harness.rollout(0, 0, right=True)
    assert result.stop is CAUSES[fault]
    assert result.reward is None
    assert fault in result.failures[-1].error or fault is Fault.START_HANGS
    await harness.worker.close()
    harness.assert_nothing_is_left()


async def test_what_stops_badly_or_is_full_has_a_reward_all_the_same():
    for fault, stop in ((Fault.STOP_FAILS, StopReason.SUBMITTED), (Fault.POLICY_FULL, StopReason.CONTEXT_FULL)):
        harness = Harness(0, {fault: 1.0})
        result = await harness.rollout(0, 0, right=True)
        assert (result.stop, result.reward is None) == (stop, False)
        harness.assert_nothing_is_left()


def test_draws_depend_on_seed_and_label_alone():
    labels = [f"t{i}@{j}" for i in range(50) for j in range(4)]
    one, other = Faults(1, RATES), Faults(1, RATES)
    assert [one.environment(label) for label in labels] == [other.environment(label) for label in labels[::-1]][::-1]
    assert [Faults(2, RATES).environment(label) for label in labels] != [other.environment(label) for label in labels]
    assert one.drawn.total() < len(labels)


@pytest.mark.parametrize(("rates", "says"), [({"start_fail": 1}, "start_fails"), ({"start_fails": 1.5}, "exceed 1")])
def test_rates_that_make_no_sense_are_refused(rates, says):
    with pytest.raises(ConfigError, match=says):
        Faults(0, rates)


async def test_the_registered_backend_breaks_what_it_wraps():
    backend = load_plugins().load("environments", "faulty", "swe.environment.backend")
    options = {"of": "dummy", "seed": 3, "rates": {"command_dies": 1.0}}
    spec = EnvironmentSpec(Image(files={"a": "1"}), label="x@0", options=options)
    environment = backend(spec)
    async with environment:
        assert await environment.is_alive()
        with pytest.raises(EnvironmentUnavailable, match="injected command_dies"):
            await asyncio.gather(*(environment.shell("true") for _ in range(20)))
        assert not await environment.is_alive()
        with pytest.raises(EnvironmentUnavailable, match="it is gone"):
            await environment.read_file("a")
