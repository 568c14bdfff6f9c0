"""A whole rollout in containers: agent, patch, hidden tests in a fresh one."""

import pytest
from rollout.test_in_sandbox import FIX, TASK, block
from rollout.workers import SUBMIT, answers

from swe_plugin.config import load_config
from swe_plugin.plugins import load_plugins
from swe_plugin.rollout.build import build_rollout_worker
from swe_plugin.types import StopReason

pytestmark = pytest.mark.docker


@pytest.mark.parametrize(("change", "reward"), [(FIX, 1.0), ("echo >> src/calc.py", 0.0)])
async def test_an_episode_on_a_real_repository(dockerd, tmp_path, change, reward):
    worker = build_rollout_worker(load_config({"environment": {"backend": "docker"}}), load_plugins(), tmp_path)
    result = await worker.run(TASK, 0, answers(block(change), SUBMIT), step=1, phase="train")
    assert (result.stop, result.reward, result.failures) == (StopReason.SUBMITTED, reward, [])
