"""Whatever fails, in whatever order: one result per rollout, no reward from infrastructure, nothing left."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from rollout.workers import FIX, SUBMIT, TASK, worker
from swe_plugin.environments.dummy import DummyBehaviour, DummyEnvironment
from swe_plugin.errors import ContextOverflow, PolicyError, RolloutCancelled
from swe_plugin.policies.scripted import ScriptedPolicy
from swe_plugin.rollout.outcome import Row, outcome
from swe_plugin.types import ExecResult, StopReason

ROLLOUTS = 400
FIXED = b"add() { echo $(($1 + $2)); }\n"


class Faults:
    """Chooses by a seed what goes wrong, and remembers what was started and stopped."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.made: list[DummyEnvironment] = []

    def environment(self, spec) -> DummyEnvironment:
        chance = self.random.random()
        behaviour = DummyBehaviour(
            fail_start="no image" if chance < 0.1 else "",
            die_after=self.random.randrange(3) if chance > 0.85 else -1,
            start_s=0.001 * self.random.random(),
        )
        self.made.append(DummyEnvironment(spec, handler=self.handle, behaviour=behaviour))
        return self.made[-1]

    def handle(self, environment: DummyEnvironment, script: str) -> ExecResult | str | None:
        if "git apply" in script:
            return "" if self.random.random() < 0.9 else ExecResult("", "does not apply", 1)
        if script == "bash hidden.sh":
            if self.random.random() < 0.1:
                return ExecResult("", exit_code=-1, timed_out=True)
            return "PASSED two\n" if self.random.random() < 0.5 else "FAILED two\n"
        if script.startswith("sed"):
            environment.files["/testbed/calc.sh"] = FIXED + str(self.random.random()).encode()
            return ""
        return None

    def policy(self) -> ScriptedPolicy:
        ends = (SUBMIT, SUBMIT, SUBMIT, "?", ContextOverflow("full"), PolicyError("down"), KeyError("bug"))
        ends = (*ends, RolloutCancelled("stale"), FIX)
        steps = [FIX] * self.random.randrange(3) + [self.random.choice(ends)]
        return ScriptedPolicy(lambda history: steps[min(len(history) // 2 - 1, len(steps) - 1)])


async def test_every_rollout_ends_in_one_row_of_the_matrix():
    faults = Faults(seed=7)
    made = worker(faults.environment, scaffold__max_turns=4, scaffold__max_format_errors=2, failure__max_attempts=2)
    results = await asyncio.gather(
        *(made.run(TASK, n, faults.policy, step=1, phase=("train", "val")[n % 2]) for n in range(ROLLOUTS))
    )
    assert [result.session for result in results] == list(range(ROLLOUTS))
    for result in results:
        row = outcome(result.stop).row
        assert (result.reward is None) == (row is Row.NONE), result
        assert (result.grade is None) == (result.reward is None)
        assert result.failures or result.reward is not None
        assert result.reward in (None, 0.0, 1.0)
    stops = Counter(result.stop for result in results)
    never = {StopReason.STOPPED, StopReason.WALL_CLOCK, StopReason.DISHONEST, StopReason.ROLLOUT_TIMEOUT}
    assert set(stops) == set(StopReason) - never
    assert made.pool.in_use == 0
    assert all(environment.stopped for environment in faults.made)
