"""The two ends of the scale, on the demo's tasks in the real sandbox: the gold patch is resolved, nothing is not."""

import dataclasses

import pytest

from swe_plugin.config import load_config
from swe_plugin.data.demo import demo_tasks
from swe_plugin.plugins import load_plugins
from swe_plugin.policies.scripted import ScriptedPolicy
from swe_plugin.rollout.build import build_rollout_worker
from swe_plugin.types import StopReason

TASK = demo_tasks()[0]


async def play(scaffold, task=TASK):
    worker = build_rollout_worker(load_config({"scaffold": {"name": scaffold}}), load_plugins(), None)
    return await worker.run(task, 0, lambda: ScriptedPolicy([]), step=0, phase="val")


async def test_the_gold_patch_is_resolved():
    result = await play("gold")
    assert (result.stop, result.reward, result.grade.resolved) == (StopReason.SUBMITTED, 1.0, True)
    assert [turn.results[0].exit_code for turn in result.turns] == [0]


async def test_doing_nothing_is_not():
    result = await play("empty")
    assert (result.stop, result.reward, result.flags) == (StopReason.SUBMITTED, 0.0, ("empty_patch",))


@pytest.mark.parametrize(
    ("patch", "says"),
    [
        ("", "has no gold patch"),
        (TASK.gold_patch.replace("a/", "a/other/").replace("b/", "b/other/"), "does not apply"),
        ("no patch at all\n", "does not apply"),
    ],
)
async def test_a_broken_gold_patch_is_no_verdict(patch, says):
    result = await play("gold", dataclasses.replace(TASK, gold_patch=patch))
    assert (result.stop, result.reward, result.grade) == (StopReason.GRADER_ERROR, None, None)
    assert says in result.failures[0].error
