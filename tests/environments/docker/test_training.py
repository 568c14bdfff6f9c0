"""The demo trains in containers: verl, Ray, vLLM and dockerd, nothing replaced."""

import pytest
from verl_adapter.test_training_run import Run, assert_nothing_is_left, steps

from swe_plugin.verl_adapter.demo_model import default_cache

pytestmark = [pytest.mark.docker, pytest.mark.verl, pytest.mark.timeout(1800)]

MODELS = default_cache() / "demo"  # of this machine: the tests' own home comes later


@pytest.fixture
def home(tmp_path):
    """State of this run alone, but the demo's model as it is cached on this machine."""
    MODELS.mkdir(parents=True, exist_ok=True)
    (tmp_path / "demo").symlink_to(MODELS)
    return tmp_path


def test_a_step_of_the_demo_in_containers(dockerd, home):
    words = ("swe.environment.backend=docker", "trainer.total_training_steps=1", "swe.output.run=docker")
    run = Run(home, "swe", *words)
    try:
        run.wait_for(dockerd.containers)
        assert run.wait() == 0, run.tail()
        assert_nothing_is_left(run, home)
    finally:
        run.end()
    assert not dockerd.containers()
    values = steps(run.directory / "docker")[1]
    assert (values["swe/failed_total"], values["swe/rows/real_total"]) == (0, 16)
    assert values["critic/score/mean"] == values["swe/resolved"]
    assert len(list((run.directory / "docker/step_1/train").glob("*@*/trajectory.json"))) == 16
