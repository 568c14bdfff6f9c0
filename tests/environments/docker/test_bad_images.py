"""Images that no agent can work in: each is one line that names the rollout, what is wrong and the fix."""

import pytest

from swe_plugin.environments import AGENT_ENV, EnvironmentSpec
from swe_plugin.environments.docker import DockerEnvironment
from swe_plugin.errors import EnvironmentStartError
from swe_plugin.types import Image

from .image_archives import ARM64, entry, layer, saved

pytestmark = pytest.mark.docker

PLACES = [entry(name, mode=0o777) for name in ("tmp", "testbed", "home", "usr", "usr/bin")]


async def start(image, **options):
    spec = EnvironmentSpec(image, env=AGENT_ENV, label="django-1#0", options=options)
    with pytest.raises(EnvironmentStartError) as caught:
        await DockerEnvironment(spec).start()
    message = str(caught.value)
    assert message.startswith("django-1#0: ")
    assert "\n" not in message
    return message.removeprefix("django-1#0: ")


async def test_one_that_is_not_there(dockerd):
    found = await start(Image("docker:no/such:3"))
    assert found.startswith("image 'docker:no/such:3' is not on the daemon: docker pull no/such:3, or set ")


async def test_one_that_no_registry_has(dockerd):
    found = await start(Image("docker:localhost:1/no/such:3"), pull="missing")
    assert found.startswith("image 'docker:localhost:1/no/such:3' cannot be fetched: ")


async def test_one_for_another_processor(dockerd, client):
    client.images.load(saved("other:1", layer(*PLACES), architecture="arm64"))
    found = await start(Image("docker:other:1"))
    assert found == (
        "image 'docker:other:1': wrong architecture: it is for arm64, the daemon runs on amd64: "
        "docker pull --platform linux/amd64 other:1, or build it for that"
    )


async def test_one_that_says_it_is_for_this_processor_and_is_not(dockerd, client):
    programs = [entry(f"usr/bin/{name}", content=ARM64) for name in ("bash", "git")]
    client.images.load(saved("lying:1", layer(*PLACES, *programs)))
    found = await start(Image("docker:lying:1"))
    assert found.startswith("wrong architecture: its bash is ELF machine 183, the daemon's is 62: ")


async def test_one_without_bash(dockerd, client):
    client.images.load(saved("empty:1", layer(*PLACES)))
    assert (await start(Image("docker:empty:1"))).startswith("the image has no bash in /")


async def test_one_without_git(dockerd, client):
    client.images.load(saved("gitless:1", layer(*PLACES, entry("usr/bin/bash", content=b"#!/bin/true\n"))))
    found = await start(Image("docker:gitless:1"))
    assert found.endswith(": patches are read with git: install it in the image")


async def test_one_without_the_work_directory(tagged):
    found = await start(Image(tagged, workdir="/nowhere"))
    assert found == "the image has no directory /nowhere (image.workdir): name the one that holds the repository"


async def test_one_whose_work_directory_the_agent_may_not_write(tagged):
    found = await start(Image(tagged, workdir="/etc"), user="1000:1000")
    assert found.startswith("/etc is read-only for the agent (uid 1000): give it to that user")


async def test_one_whose_work_directory_is_not_its_roots(tagged):
    """Root has no capabilities: it may not write what is another user's."""
    found = await start(Image(tagged, workdir="/home/agent"))
    assert found.startswith("/home/agent is read-only for the agent (uid 0): ")
    assert found.endswith(" or set swe.environment.options.user=1000:1000, whose it is")


async def test_a_directory_is_an_image_whatever_it_holds(dockerd, tmp_path):
    (tmp_path / "root/testbed").mkdir(parents=True)
    assert (await start(Image(f"rootfs:{tmp_path}/root"))).startswith("the image has no bash in /")


@pytest.mark.parametrize(
    ("image", "options", "message"),
    [
        (Image("nonsense"), {}, "unknown kind"),
        (Image("rootfs:/nope"), {}, "/nope does not exist"),
        (Image("docker:"), {}, "unknown kind"),
        (Image("oci:/x.tar"), {}, "/x.tar does not exist"),
        (Image(files={"../x": ""}), {}, "not a path inside"),
        (Image(workdir="testbed"), {}, "must be an absolute path"),
        (
            Image(),
            {"colour": "blue"},
            "unknown option of the docker backend; known: host, open_files, pull, ready, user",
        ),
        (Image(), {"user": "agent"}, "must be UID:GID"),
        (Image(), {"pull": "always"}, "must be one of never, missing"),
        (Image(), {"open_files": 3}, "at least 64"),
        (Image(), {"ready": -1}, "ready=-1: must be a number, at least 0"),
    ],
)
async def test_a_mistake_in_the_task_or_the_options(dockerd, image, options, message):
    assert message in await start(image, **options)
