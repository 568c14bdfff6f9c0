"""From an image of a task to a container: the same content as in a sandbox, and clear words where that fails."""

import io
import tarfile

import docker
import pytest

from swe_plugin.environments import AGENT_ENV, EnvironmentSpec
from swe_plugin.environments.docker import DockerEnvironment
from swe_plugin.environments.sandbox import SandboxEnvironment
from swe_plugin.errors import EnvironmentStartError
from swe_plugin.types import Image

FILES = {"calc.py": "def add(a, b):\n    return a - b\n"}


def spec(image, **options):
    return EnvironmentSpec(image, env=AGENT_ENV, label="image", options=options)


@pytest.fixture
def client(dockerd):
    client = docker.DockerClient(base_url=dockerd.host)
    yield client
    client.close()


@pytest.fixture
async def tagged(client):
    """The host image under a name of its own, with variables, without a user."""
    async with DockerEnvironment(spec(Image(workdir="/tmp"))):
        pass
    base = next(tag for image in client.images.list() for tag in image.tags if tag.startswith("swe-plugin-base:"))
    made = client.api.create_container(base, ["none"])["Id"]
    client.api.commit(made, "tagged", "1", changes=["ENV PATH=/opt/tool/bin:/usr/local/bin:/usr/bin", "ENV TOOL=yes"])
    client.api.remove_container(made)
    return "docker:tagged:1"


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


async def test_a_reference_that_is_not_there_names_itself_and_the_fix(dockerd):
    message = r"image 'docker:no/such:3' is not on the daemon: docker pull no/such:3"
    with pytest.raises(EnvironmentStartError, match=message):
        await DockerEnvironment(spec(Image("docker:no/such:3"))).start()


async def test_an_image_without_bash_says_so(dockerd, client):
    empty = io.BytesIO()
    with tarfile.open(fileobj=empty, mode="w") as archive:
        for name in ("tmp", "testbed", "home"):
            member = tarfile.TarInfo(name)
            member.type, member.mode = tarfile.DIRTYPE, 0o777
            archive.addfile(member)
    client.api.import_image_from_data(empty.getvalue(), "empty", "1")
    with pytest.raises(EnvironmentStartError, match="bash does not start"):
        await DockerEnvironment(spec(Image("docker:empty:1"))).start()


@pytest.mark.parametrize(
    ("image", "options", "message"),
    [
        (Image("nonsense"), {}, "unknown kind"),
        (Image("rootfs:/nope"), {}, "not a directory"),
        (Image(files={"../x": ""}), {}, "not a path inside"),
        (Image(), {"colour": "blue"}, "unknown option 'colour'; known: host, open_files, pull, user"),
    ],
)
async def test_a_bad_image_or_option_is_one_clear_line(dockerd, image, options, message):
    with pytest.raises(EnvironmentStartError, match=message) as caught:
        await DockerEnvironment(spec(image, **options)).start()
    assert "\n" not in str(caught.value)


async def test_a_directory_is_an_image_whatever_it_holds(dockerd, tmp_path):
    (tmp_path / "root/testbed").mkdir(parents=True)
    with pytest.raises(EnvironmentStartError, match="bash does not start"):
        await DockerEnvironment(spec(Image(f"rootfs:{tmp_path}/root"))).start()
