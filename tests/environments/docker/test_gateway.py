"""From inside a container without network there is a way to the gateway: what holds for a sandbox holds here."""

import pytest
from gateway.test_inside import (  # noqa: F401
    test_a_process_inside_talks_to_its_policy,
    test_large_messages_pass_both_ways,
    test_many_connections_at_once,
    test_nothing_listens_when_the_rollout_is_over,
    test_the_key_of_another_rollout_is_refused_there_and_noted,
)

from swe_plugin.config import EnvironmentConfig
from swe_plugin.environments import spec_for
from swe_plugin.environments.docker import DockerEnvironment
from swe_plugin.types import Image

pytestmark = pytest.mark.docker


@pytest.fixture
async def environment(dockerd):
    spec = spec_for(Image(files={"a.py": ""}), EnvironmentConfig(backend="docker"), label="a")
    async with DockerEnvironment(spec) as started:
        yield started
