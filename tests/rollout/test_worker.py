"""The worker around the matrix: cancellation, events, records, many rollouts at once."""

from __future__ import annotations

import asyncio
import logging
import math

import pytest
from grading.local import LocalEnvironment

from rollout.workers import FIX, HARMLESS, SUBMIT, TASK, Environments, answers, play, worker
from swe_plugin.config import load_config
from swe_plugin.environments.base import EnvironmentSpec
from swe_plugin.environments.dummy import DummyEnvironment
from swe_plugin.errors import ConfigError, PatchError
from swe_plugin.grading.patch import Patch
from swe_plugin.hookspecs import hookimpl
from swe_plugin.plugins import load_plugins
from swe_plugin.policies.scripted import ScriptedPolicy
from swe_plugin.rollout.build import build_rollout_worker
from swe_plugin.trajectories.store import find_trajectories, load_trajectory
from swe_plugin.types import ExecResult, Segment, StopReason


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = LocalEnvironment.live
    yield
    assert LocalEnvironment.live == before


class Slow(LocalEnvironment):
    """Says when its agent has begun a command that takes for ever."""

    async def shell(self, script, *, timeout_s=60.0):
        self.spec.options["begun"].set()
        await asyncio.Event().wait()


@pytest.mark.parametrize("how", ["caller", "close"])
async def test_a_cancelled_rollout_leaves_nothing_and_raises(how, tmp_path):
    begun = asyncio.Event()

    def factory(spec):
        spec.options["begun"] = begun
        return Slow(spec)

    made = worker(factory, tmp_path)
    rollout = asyncio.create_task(play(made, FIX))
    await begun.wait()
    assert made.pool.in_use == 1
    if how == "close":
        await made.close()
    else:
        rollout.cancel()
        await asyncio.wait([rollout])
    assert rollout.cancelled()
    assert made.pool.in_use == 0
    assert LocalEnvironment.live == 0
    assert list(find_trajectories(tmp_path)) == []
    await made.close()


async def test_a_rollout_cancelled_while_it_is_graded_leaves_nothing():
    begun = asyncio.Event()

    class SlowGrading(LocalEnvironment):
        async def exec(self, argv, **options):
            if argv[-1] == "hidden.sh":
                begun.set()
                await asyncio.Event().wait()
            return await super().exec(argv, **options)

    made = worker(SlowGrading)
    rollouts = [asyncio.create_task(play(made, FIX, SUBMIT)) for _ in range(2)]
    await begun.wait()
    for rollout in rollouts:
        rollout.cancel()
    await asyncio.wait(rollouts)
    assert made.pool.in_use == LocalEnvironment.live == 0


class Listener:
    def __init__(self, error: Exception | None = None) -> None:
        self.heard: list[object] = []
        self.error = error

    @hookimpl
    def swe_rollout_started(self, task, environment):
        self.heard.append(("started", task.instance_id, environment))
        if self.error:
            raise self.error

    @hookimpl
    def swe_rollout_finished(self, result):
        self.heard.append(("finished", result.stop, result.reward))
        if self.error:
            raise self.error


async def test_every_plugin_hears_of_a_rollout_even_if_another_raises(caplog):
    bad, good = Listener(ValueError("broken plugin")), Listener()
    manager = load_plugins().manager
    environments = Environments()
    for plugin in (good, bad):
        manager.register(plugin, name=f"p{id(plugin)}")
    try:
        with caplog.at_level(logging.ERROR):
            result = await play(worker(environments), FIX, SUBMIT)
    finally:
        for plugin in (good, bad):
            manager.unregister(plugin)
    assert result.reward == 1.0
    wanted = [("started", "calc-1", environments.agents[0]), ("finished", StopReason.SUBMITTED, 1.0)]
    assert good.heard == bad.heard == wanted
    assert caplog.text.count("broken plugin") >= 2


async def test_every_phase_is_timed_and_the_parts_do_not_exceed_the_whole():
    timings = (await play(worker(), FIX, SUBMIT)).timings
    assert set(timings) == {"wait", "start", "generate", "exec", "patch", "grade", "total"}
    assert all(seconds >= 0 for seconds in timings.values())
    assert sum(timings.values()) - timings["total"] <= timings["total"]


async def test_the_tokens_of_the_last_attempt_are_in_the_result():
    class Sampling(ScriptedPolicy):
        segments = (Segment([1, 2], [0, 1], [0.0, -0.5], [-1, 3], [], 1),)

    result = await worker().run(TASK, 0, lambda: Sampling([SUBMIT]), step=1, phase="train")
    assert result.segments == [*Sampling.segments]


async def test_equal_patches_of_a_group_are_graded_once():
    environments = Environments()
    made = worker(environments)
    scripts = [(FIX, SUBMIT), (FIX, "?", SUBMIT), (HARMLESS, SUBMIT), (FIX, SUBMIT)]
    results = await asyncio.gather(
        *(made.run(TASK, n, answers(*script), step=1, phase="train") for n, script in enumerate(scripts))
    )
    assert [result.reward for result in results] == [1.0, 1.0, 0.0, 1.0]
    assert len(environments.graders) == 2
    assert made.grade_cache.hit_rate == 0.5


async def test_without_cache_every_patch_is_graded():
    environments = Environments()
    made = worker(environments, grading__cache=False)
    await asyncio.gather(*(play(made, FIX, SUBMIT) for _ in range(2)))
    assert len(environments.graders) == 2
    assert made.grade_cache is None


async def test_the_agent_never_sees_the_hidden_tests():
    environments = Environments()
    search = "```bash\nls -a; git log --all -p; grep -r PASSED . ; env\n```"
    result = await play(worker(environments), search, SUBMIT)
    told = "".join(message.content for message in result.messages)
    assert "hidden.sh" not in told
    assert "echo PASSED two" not in told
    assert "hidden.sh" not in result.turns[0].results[0].stdout


async def test_gradings_have_slots_of_their_own():
    made = worker(slots__running=1, slots__grading=1)
    results = await asyncio.gather(*(play(made, script, SUBMIT) for script in (FIX, HARMLESS, FIX, HARMLESS)))
    assert [result.reward for result in results] == [1.0, 0.0, 1.0, 0.0]


async def test_results_are_recorded_with_their_failures(tmp_path):
    await play(worker(Environments(dies=1), tmp_path), FIX, SUBMIT)
    (path,) = find_trajectories(tmp_path)
    assert path == tmp_path / "step_1" / "train" / "calc-1@0"
    stored = load_trajectory(path).result
    assert (stored.stop, stored.reward, len(stored.failures)) == (StopReason.SUBMITTED, 1.0, 1)
    assert stored.failures[0].stop is StopReason.ENVIRONMENT_LOST
    assert "EnvironmentUnavailable" in (path / "failure_1.txt").read_text()


async def test_a_record_that_cannot_be_written_costs_nothing_but_the_record(tmp_path, caplog):
    (tmp_path / "step_1").write_text("a file is in the way")
    result = await play(worker(run_dir=tmp_path), FIX, SUBMIT)
    assert result.reward == 1.0
    assert "could not be written" in caplog.text


async def test_a_reward_that_is_no_number_is_no_row(monkeypatch):
    """A NaN would spread over the advantages of the whole group."""
    made = worker()
    monkeypatch.setattr(made.judge.grader, "reward", lambda *_: math.nan)
    result = await play(made, FIX, SUBMIT)
    assert (result.stop, result.reward) == (StopReason.GRADER_ERROR, None)


@pytest.mark.parametrize(
    ("read", "stop", "reward", "flags"),
    [
        ("bad good bad", StopReason.SUBMITTED, 0.0, ("patch_unreadable",)),
        ("bad bad bad", StopReason.GRADER_ERROR, None, ()),  # an untouched one cannot be read either
        ("bad good good", StopReason.SUBMITTED, 0.0, ("empty_patch",)),
    ],
)
async def test_work_that_cannot_be_read_is_the_agents_fault_only_if_a_controls_can(
    monkeypatch, read, stop, reward, flags
):
    said = iter(read.split())

    async def extract(*_, **__):
        if next(said) == "bad":
            raise PatchError("git failed: no room")
        return Patch("")

    monkeypatch.setattr("swe_plugin.rollout.attempt.extract_patch", extract)
    result = await play(worker(), FIX, SUBMIT)
    assert (result.stop, result.reward) == (stop, reward)
    assert result.flags == flags


async def test_a_patch_that_does_not_apply_is_a_failed_grading_by_that_name(monkeypatch):
    async def extract(*_, **__):
        return Patch("diff --git a/no b/no\n--- a/no\n+++ b/no\n@@ -1 +1 @@\n-a\n+b\n")

    monkeypatch.setattr("swe_plugin.rollout.attempt.extract_patch", extract)
    result = await play(worker(), FIX, SUBMIT)
    assert (result.stop, result.reward) == (StopReason.GRADER_ERROR, None)
    assert {failure.error.partition(":")[0] for failure in result.failures} == {"PatchError"}


async def test_an_image_whose_baseline_cannot_be_recorded_did_not_start():
    class NoGit(LocalEnvironment):
        async def exec(self, argv, **options):
            return ExecResult("", "git: not found", 127)

    result = await play(worker(NoGit), FIX)
    assert (result.stop, result.reward) == (StopReason.ENVIRONMENT_START, None)
    assert "baseline could not be recorded" in result.failures[0].error


async def test_a_policy_that_cannot_be_made_is_no_row():
    def broken():
        raise RuntimeError("no tokenizer")

    result = await worker().run(TASK, 0, broken, step=1, phase="train")
    assert (result.stop, result.reward) == (StopReason.SCAFFOLD_ERROR, None)


async def test_a_phase_that_does_not_exist_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="phase='test'"):
        await worker().run(TASK, 0, answers(SUBMIT), step=1, phase="test")


async def test_an_environment_that_knows_its_changes_needs_no_git():
    def handler(environment: DummyEnvironment, script: str):
        if "git apply" in script:
            return ""
        if script == "bash hidden.sh":
            return "PASSED two\n"
        if script.startswith("sed"):
            environment.files["/testbed/calc.sh"] = b"add() { echo $(($1 + $2)); }\n"
            return ""
        return None

    def factory(spec: EnvironmentSpec) -> DummyEnvironment:
        return DummyEnvironment(spec, handler=handler)

    made = worker(factory)
    results = await asyncio.gather(*(play(made, FIX, SUBMIT) for _ in range(50)))
    assert [result.reward for result in results] == [1.0] * 50
    assert "+add() { echo $(($1 + $2)); }" in results[0].patch


@pytest.mark.parametrize(
    ("section", "key"),
    [
        ({"scaffold": {"name": "bahs"}}, "swe.scaffold.name"),
        ({"grading": {"grader": "tets"}}, "swe.grading.grader"),
        ({"environment": {"backend": "sandbx"}}, "swe.environment.backend"),
        ({"scaffold": {"instance_prompt": "nope"}}, "swe.scaffold.instance_prompt"),
    ],
)
def test_a_wrong_name_is_an_error_before_anything_starts(section, key):
    with pytest.raises(ConfigError, match=key):
        build_rollout_worker(load_config(section), load_plugins(), None)
