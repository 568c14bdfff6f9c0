"""The docker backend passes the public suite on a real daemon."""

import pytest
from docker.errors import APIError

from swe_plugin.environments.conformance import ConformanceSuite
from swe_plugin.environments.docker import DockerEnvironment
from swe_plugin.types import Image

pytestmark = pytest.mark.docker


@pytest.mark.usefixtures("dockerd")
class TestDocker(ConformanceSuite):
    backend = DockerEnvironment
    unusable_image = Image("docker:no-such-image:1")

    async def kill(self, environment):
        try:
            environment._daemon.api.kill(environment._name)
        except APIError as error:
            if "no such container" not in str(error):  # podman looks at it once more, when it is gone
                raise
