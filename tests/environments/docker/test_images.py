"""From an image of a task to a container: the same content as in a sandbox, and clear words where that fails."""

import pytest

from swe_plugin.cli.prepare import image_sizes
from swe_plugin.environments import AGENT_ENV, EnvironmentSpec
from swe_plugin.environments.docker import DockerEnvironment
from swe_plugin.environments.docker.daemon import local_sizes
from swe_plugin.environments.sandbox import SandboxEnvironment
from swe_plugin.types import Image

from ..image_archives import directory_layer
from ..image_repositories import leaky_repository

pytestmark = pytest.mark.docker

FILES = {"calc.py": "def add(a, b):\n    return a - b\n"}


def spec(image, **options):
    return EnvironmentSpec(image, env=AGENT_ENV, label="image", options=options)


async def test_the_same_image_is_the_same_commit_in_both_backends(dockerd):
    commits = set()
    for backend in (DockerEnvironment, SandboxEnvironment):
        async with backend(spec(Image(files=FILES))) as environment:
            commits.add((await environment.exec(["git", "rev-parse", "HEAD"])).stdout)
            assert (await environment.exec(["id", "-u"])).stdout == "1000\n"
            assert (await environment.exec(["git", "status", "--porcelain"])).stdout == ""
    assert len(commits) == 1


async def test_an_image_is_built_once(dockerd, client):
    for _ in range(2):
        async with DockerEnvironment(spec(Image(files=FILES))):
            before = {image.id for image in client.images.list(all=True)}
    assert {image.id for image in client.images.list(all=True)} == before


async def test_a_reference_runs_as_its_own_user_with_its_own_variables(tagged):
    async with DockerEnvironment(spec(Image(tagged, workdir="/tmp"))) as environment:
        script = 'id -u; echo "$PATH $TOOL $HOME"; touch /etc/mine && echo writable'
        seen = (await environment.exec(["bash", "-c", script])).stdout
    assert seen == f"0\n/opt/tool/bin:/usr/local/bin:/usr/bin yes {AGENT_ENV['HOME']}\nwritable\n"


async def test_a_reference_can_run_as_another_user_and_hold_a_repository(tagged):
    async with DockerEnvironment(spec(Image(tagged, FILES, "/src/repo"), user="1234:1234")) as environment:
        seen = (await environment.exec(["bash", "-c", "id -u; pwd; stat -c %u calc.py $HOME; git status -s"])).stdout
    assert seen == "1234\n/src/repo\n1234\n1234\n"


async def test_an_archive_is_an_image_too(client, tagged, tmp_path):
    """It is unpacked as for a sandbox; variables that it sets are kept."""
    with (tmp_path / "saved.tar").open("wb") as file:
        for chunk in client.images.get(tagged.removeprefix("docker:")).save(named=True):
            file.write(chunk)
    async with DockerEnvironment(spec(Image(f"oci:{tmp_path}/saved.tar", FILES))) as environment:
        seen = (await environment.exec(["bash", "-c", "id -u; echo $TOOL; cat calc.py; git status -s"])).stdout
    assert seen == f"1000\nyes\n{FILES['calc.py']}"


async def test_sizes_of_what_the_daemon_has_are_known_by_reference(client, tagged, dockerd):
    client.images.get(tagged.removeprefix("docker:")).tag("localhost:9/here")
    assert local_sizes(dockerd.host)["localhost:9/here:latest"] > 1_000_000
    found = image_sizes(["docker:localhost:9/here", "docker:localhost:9/gone"])
    assert (found["on_daemon"], found["on_daemon_bytes"] > 1_000_000, [*found["unknown"].values()]) == (1, True, [1])


async def test_a_base_commit_is_cut_in_the_daemons_own_image(client, tagged, tmp_path):
    """A reference that no registry has: made of what the daemon has, once, and the fix is nowhere in it."""
    (tmp_path / "image").mkdir()
    base, later = leaky_repository(tmp_path / "image/testbed", tmp_path / "image/opt/objects")
    made = client.api.create_container(tagged.removeprefix("docker:"), ["none"])["Id"]
    client.api.put_archive(made, "/", directory_layer(tmp_path / "image"))
    client.api.commit(made, "published", "1")
    client.api.remove_container(made)
    script = "id -u; echo $TOOL; git rev-parse HEAD; cat calc.py"
    images = set()
    for _ in range(2):
        async with DockerEnvironment(spec(Image("docker:published:1", commit=base))) as environment:
            seen = (await environment.exec(["bash", "-c", script])).stdout.splitlines()
            found = (
                await environment.exec(["git", "cat-file", "--batch-check"], stdin="\n".join(later).encode())
            ).stdout
            images.add(client.api.inspect_container(environment._name)["Image"])
    assert seen == ["1000", "yes", base, "# 2", "def add(a, b):", "    return a - b"]
    assert found.count(" missing\n") == len(later)
    assert len(images) == 1
