"""A daemon for the tests of this folder, and images on it."""

import asyncio

import docker
import pytest

from swe_plugin.environments import EnvironmentLimits, EnvironmentSpec
from swe_plugin.environments.conformance.checks import FILES
from swe_plugin.environments.docker import DockerEnvironment, close_daemons
from swe_plugin.types import Image

from .dockerd import eventually, running_dockerd


async def _warm():
    """The first start builds images; that is not the time that tests measure."""
    async with DockerEnvironment(EnvironmentSpec(Image(files=FILES), EnvironmentLimits(start_timeout_s=240))):
        pass


@pytest.fixture(scope="session")
def dockerd(swe_home, tmp_path_factory):
    """A running daemon, which DOCKER_HOST names."""
    with running_dockerd(tmp_path_factory.mktemp("dockerd")) as daemon, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", daemon.host)
        asyncio.run(_warm())
        yield daemon
        close_daemons()
        assert eventually(lambda: not daemon.containers())


@pytest.fixture
def client(dockerd):
    """The SDK's client of the daemon."""
    client = docker.DockerClient(base_url=dockerd.host)
    yield client
    client.close()


@pytest.fixture
async def tagged(client):
    """The host image under a name of its own, with variables, without a user."""
    async with DockerEnvironment(EnvironmentSpec(Image(workdir="/tmp"))):
        pass
    bases = [image for image in client.images.list() if any(tag.startswith("swe-plugin-base:") for tag in image.tags)]
    base = max(bases, key=lambda image: image.attrs["Size"]).id  # that of this machine, not of a test's directory
    made = client.api.create_container(base, ["none"])["Id"]
    client.api.commit(made, "tagged", "1", changes=["ENV PATH=/opt/tool/bin:/usr/local/bin:/usr/bin", "ENV TOOL=yes"])
    client.api.remove_container(made)
    return "docker:tagged:1"
